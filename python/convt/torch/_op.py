# SPDX-License-Identifier: Apache-2.0
"""The operators convt::conv_transpose and convt::conv_transpose_out, as PyTorch's dispatcher knows them.

`text` has the convolution's fields and the chain ("stride=2 | bias | gelu"), `operands` the chain's tensors in their order.
`layout` names the result's, or is "" for the one that PyTorch's convolution would choose. `packed` is 0, or a number that
stands for the weight's contents: calls with equal numbers may share a weight that was packed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _library
from . import _chain, _kernel, _reference

_SCHEMA = "(Tensor input, Tensor weight, Tensor[] operands, str text, str layout, int packed) -> Tensor"
_OUT_SCHEMA = "(Tensor input, Tensor weight, Tensor[] operands, str text, int packed, Tensor(a!) out) -> ()"

_library_of: Any = torch.library.Library
_register_fake: Any = torch.library.register_fake
_definitions = _library_of("convt", "DEF")
_definitions.define("conv_transpose" + _SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
_definitions.define("conv_transpose_out" + _OUT_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))

#: libconvt_torch.so, or None: then the kernels are Python's.
extension = _kernel.load_extension()


def _run_out(input: Any, weight: Any, operands: Any, text: str, packed: int, out: Any) -> None:
    _kernel.run(input, weight, operands, text, "", packed, out)


if extension is None:
    for _key in ("CPU", "CUDA"):
        _definitions.impl("conv_transpose", _kernel.run, _key)
        _definitions.impl("conv_transpose_out", _run_out, _key)

conv_transpose: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose.default
conv_transpose_out: Callable[..., None] = torch.ops.convt.conv_transpose_out.default

# Below autograd's key nothing is recorded, and autograd's own kernel, which is Python, is not paid for.
_below_autograd = torch._C._AutoDispatchBelowAutograd
_run: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose.default._op
_is_compiling = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled


def call(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, layout: str = "",
    packed: int = 0,
) -> torch.Tensor:
    """The operator, by the shortest way there is."""
    if _is_compiling():
        return conv_transpose(input, weight, operands, text, layout, packed)
    if _is_grad_enabled():
        recorded = input.requires_grad or weight.requires_grad
        for operand in operands:
            recorded = recorded or operand.requires_grad
        if recorded:
            return conv_transpose(input, weight, operands, text, layout, packed)
    with _below_autograd():
        return _run(input, weight, operands, text, layout, packed)


# ---- shapes


def _fake(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, layout: str, packed: int,
) -> torch.Tensor:
    shape = _chain.output_shape(_chain.parse(text, input.dim() - 2), input.shape, weight.shape)
    strides = _kernel.dense_strides(shape, _kernel.result_is_channels_last(input, weight, layout))
    return input.new_empty_strided(shape, strides)


def _fake_out(*arguments: Any) -> None:
    return None


_register_fake("convt::conv_transpose", _fake)
_register_fake("convt::conv_transpose_out", _fake_out)


# ---- gradients: PyTorch's own, of the chain in its operations; the convolution's result is computed again.


def _is_affine(op: _chain.Op) -> bool:
    """Whether the op's derivative is the same wherever it is taken."""
    if op.name in ("bias", "avg_pool", "global_avg_pool", "sum", "mean"):
        return True
    term = op.parameters.get("other")
    return (op.name in ("add", "sub") and term != "conv") or (op.name in ("mul", "div") and isinstance(term, (int, float)))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    input, weight, operands, text, _, packed = inputs
    ctx.save_for_backward(input, weight, *operands)
    ctx.text = text
    ctx.packed = packed


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "convt: a second derivative of a fused transposed convolution was asked for (create_graph=True), and there is "
            "none: use torch.nn.functional's where you differentiate twice")
    input, weight, *operands = ctx.saved_tensors
    for_input, for_weight, for_operands = ctx.needs_input_grad[:3]
    wanted = list(for_operands) if isinstance(for_operands, (list, tuple)) else [for_operands] * len(operands)
    call = _chain.parse(ctx.text, input.dim() - 2)
    grads: list[Any] = [None] * len(operands)
    if call.chain:
        head = ctx.text.partition("|")[0].strip()
        if all(map(_is_affine, call.chain)):
            shape = _chain.output_shape(_chain.parse(head, input.dim() - 2), input.shape, weight.shape)
            conv = input.new_zeros(shape)
        else:
            conv = conv_transpose(input, weight, [], head, "", ctx.packed)
        with torch.enable_grad():
            start = conv.detach().requires_grad_()
            terms = [operand.detach().requires_grad_(want) for operand, want in zip(operands, wanted)]
            result = _reference.chain(start, terms, call)
            leaves = [start, *(term for term, want in zip(terms, wanted) if want)]
            grad, *found = torch.autograd.grad(result, leaves, grad, allow_unused=True)
        for index, want in enumerate(wanted):
            if want:
                grads[index] = found.pop(0)
    of_input, of_weight, _ = torch.ops.aten.convolution_backward(
        grad, input, weight, None, call.stride, call.padding, call.dilation, True, call.output_padding, call.groups,
        [for_input, for_weight, False]) if grad is not None and (for_input or for_weight) else (None, None, None)
    return of_input, of_weight, grads, None, None, None


torch.library.register_autograd("convt::conv_transpose", _backward, setup_context=_setup_context)


# ---- autocast: as PyTorch's convolution, with the chain in the same type; operands that the chain takes in f32 stay.


def _autocast(device: str) -> Any:
    key = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}[device]
    keys = torch._C.DispatchKeySet(key)

    def cast(
        input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, layout: str, packed: int,
    ) -> torch.Tensor:
        dtype = torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            if input.dtype == torch.float64:  # which autocast leaves alone
                return conv_transpose(input, weight, operands, text, layout, packed)
            roles = _chain.parse(text, input.dim() - 2).operand_roles()
            given = [
                operand.to(torch.float32 if op.takes_f32 else dtype) for operand, (op, _) in zip(operands, roles)
            ]
            return conv_transpose(
                input.to(dtype), weight.to(dtype), given, text, layout, packed if weight.dtype == dtype else 0)

    return cast


_definitions.impl("conv_transpose", _autocast("cpu"), "AutocastCPU")
_definitions.impl("conv_transpose", _autocast("cuda"), "AutocastCUDA")


# ---- vmap: a batch of inputs joins the batch that is there; a batch of anything else is run one by one.


def _vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    input, weight, operands, text, *rest = arguments
    input_dim, weight_dim, operand_dims = in_dims[:3]
    dims = list(operand_dims) if isinstance(operand_dims, (list, tuple)) else [None] * len(operands)
    batched = input_dim is not None and weight_dim is None and all(dim is None for dim in dims)
    call = _chain.parse(text, weight.dim() - 2 - (weight_dim is not None))
    if batched and all(op.parameters.get("other") != "tensor" for op in call.chain):
        moved = input.movedim(input_dim, 0)
        result = conv_transpose(moved.flatten(0, 1), weight, operands, text, *rest)
        return result.reshape(*moved.shape[:2], *result.shape[1:]), 0

    def one(value: Any, dim: int | None, index: int) -> Any:
        return value if dim is None else value.select(dim, index)

    results = [
        conv_transpose(
            one(input, input_dim, i), one(weight, weight_dim, i),
            [one(operand, dim, i) for operand, dim in zip(operands, dims)], text, *rest)
        for i in range(info.batch_size)
    ]
    return torch.stack(results), 0


torch.library.register_vmap("convt::conv_transpose", _vmap)


# ---- plans kept between calls


def set_plan_limit(limit: int) -> None:
    """Sets how many plans are kept between calls (256 at first); at least 1. The least recently used go first."""
    if limit < 1:
        raise _library.ConvtError(f"limit: must be at least 1 (got {limit})")
    if extension is not None:
        extension.convt_torch_set_plan_limit(limit)
    else:
        _kernel.plans.limit = limit
        _kernel.plans.shrink()


def plan_count() -> int:
    """How many plans are kept now."""
    return int(extension.convt_torch_plan_count()) if extension is not None else len(_kernel.plans)


def clear_plans() -> None:
    """Forgets the plans that are kept, but for those that a captured CUDA graph uses."""
    if extension is not None:
        extension.convt_torch_clear_plans()
    else:
        _kernel.plans.clear()
