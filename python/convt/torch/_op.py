# SPDX-License-Identifier: Apache-2.0
"""The operators convt::conv_transpose, conv_transpose_bare and conv_transpose_out, as PyTorch's dispatcher knows them.

`text` has the convolution's fields and the chain ("stride=2 | bias | gelu"; _chain.py says how a prologue is written),
`operands` the tensors of prologue and chain in their order. Their gradients are in _gradients.py; conv_transpose_cat, which
writes into a concatenation, is in _cat.py.
A text that says "precision=torch" is resolved when the call runs (_precision.py).
`layout` names the result's; it is "" for the one that input and weight suggest, "torch" for the one of PyTorch's own
convolution. conv_transpose_bare is the same where nothing is recorded for gradients. `packed` is 0, or a number that
stands for the weight's contents: calls with equal numbers may share a weight that was packed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from .. import _library
from . import _chain, _kernel, _reference
from ._gradients import gradients

_SCHEMA = "(Tensor input, Tensor weight, Tensor[] operands, str text, str layout, int packed) -> Tensor"
_OUT_SCHEMA = "(Tensor input, Tensor weight, Tensor[] operands, str text, int packed, Tensor(a!) out) -> ()"

_library_of: Any = torch.library.Library
_register_fake: Any = torch.library.register_fake
_definitions = _library_of("convt", "DEF")
_definitions.define("conv_transpose" + _SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
_definitions.define("conv_transpose_bare" + _SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
_definitions.define("conv_transpose_out" + _OUT_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
_definitions.define("is_channels_last(Tensor input, Tensor weight, str text) -> bool")

#: libconvt_torch.so, or None: then the kernels are Python's.
extension = _kernel.load_extension()


def _is_channels_last(input: torch.Tensor, weight: torch.Tensor, text: str) -> bool:
    """Whether PyTorch's own convolution would lay its result so, which depends on how it would compute it."""
    if not (_kernel.suggests_channels_last(input) or _kernel.suggests_channels_last(weight)):
        return False
    call = _chain.parse(text, input.dim() - 2)
    backend = torch._C._select_conv_backend(
        input, weight, None, call.stride, call.padding, call.dilation, True, call.output_padding, call.groups)
    chosen = torch._C._conv_determine_backend_memory_format(input, weight, backend)
    return bool(chosen != torch.contiguous_format)


def _named(layout: str, input: torch.Tensor, weight: torch.Tensor, text: str) -> str:
    """The layout itself, where it is asked of PyTorch."""
    if layout != "torch":
        return layout
    return "channels_last" if _is_channels_last(input, weight, text) else "channels_first"


# libconvt_torch.so asks it where an argument suggests channels_last.
_definitions.impl("is_channels_last", _is_channels_last, "CompositeExplicitAutograd")


def _run(input: Any, weight: Any, operands: Any, text: str, layout: str, packed: int) -> torch.Tensor:
    return _kernel.run(input, weight, operands, text, _named(layout, input, weight, text), packed)


def _run_out(input: Any, weight: Any, operands: Any, text: str, packed: int, out: Any) -> None:
    _kernel.run(input, weight, operands, text, "", packed, out)


if extension is None:
    for _key in ("CPU", "CUDA"):
        _definitions.impl("conv_transpose", _run, _key)
        _definitions.impl("conv_transpose_bare", _run, _key)
        _definitions.impl("conv_transpose_out", _run_out, _key)

conv_transpose: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose.default
conv_transpose_bare: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose_bare.default
conv_transpose_out: Callable[..., None] = torch.ops.convt.conv_transpose_out.default

# Nothing is recorded of conv_transpose_bare, which says so itself: a guard, or autograd's kernel, which is Python, would
# cost more than the rest of a small call.
_definitions.impl("conv_transpose_bare", torch.library.fallthrough_kernel, "Autograd")
_bare: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose_bare.default._op
_is_compiling = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_modes = torch._C._len_torch_dispatch_stack
_transforms_active = torch._C._are_functorch_transforms_active


def call(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, packed: int = 0
) -> torch.Tensor:
    """The operator, by the shortest way there is; the result lies in memory as PyTorch's convolution would lay it."""
    if _is_compiling():
        return conv_transpose(input, weight, operands, text, "torch", packed)
    if forward_ad._current_level >= 0 or _transforms_active():
        return _transformed(input, weight, operands, text, packed)
    if _modes():  # one of them may be tracing
        return conv_transpose(input, weight, operands, text, "torch", packed)
    if _is_grad_enabled():
        recorded = input.requires_grad or weight.requires_grad
        for operand in operands:
            recorded = recorded or operand.requires_grad
        if recorded:
            # Autocast's casts are recorded too.
            if torch._C._is_any_autocast_enabled():
                return conv_transpose(input, weight, operands, text, "torch", packed)
            result: torch.Tensor = _Recorded.apply(text, packed, input, weight, *operands)
            return result
    return _bare(input, weight, operands, text, "torch", packed)


def _transformed(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, packed: int
) -> torch.Tensor:
    """The call under torch.func, or with tangents: the operator has a rule for vmap; derivatives are those of PyTorch's
    operations."""
    if _transforms_active():
        top = torch._C._functorch.peek_interpreter_stack()
        if top is not None and top.key() == torch._C._functorch.TransformType.Vmap:
            return conv_transpose(input, weight, operands, text, "torch", packed)
    return _reference.run(input, weight, operands, _chain.parse(text, input.dim() - 2))


# ---- shapes


def _fake(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, layout: str, packed: int,
) -> torch.Tensor:
    shape = _chain.output_shape(_chain.parse(text, input.dim() - 2), input.shape, weight.shape)
    layout = _named(layout, input, weight, text)
    strides = _kernel.dense_strides(shape, _kernel.result_is_channels_last(input, weight, layout))
    return input.new_empty_strided(shape, strides)


def _fake_out(*arguments: Any) -> None:
    return None


_register_fake("convt::conv_transpose", _fake)
_register_fake("convt::conv_transpose_bare", _fake)
_register_fake("convt::conv_transpose_out", _fake_out)


# ---- gradients


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    input, weight, operands, text, _, packed = inputs
    ctx.save_for_backward(input, weight, *operands)
    ctx.text = text
    ctx.packed = packed
    ctx.count = len(operands)  # saved tensors may be read once: torch.utils.checkpoint drops them then


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    for_input, for_weight, for_operands = ctx.needs_input_grad[:3]
    wanted = list(for_operands) if isinstance(for_operands, (list, tuple)) else [for_operands] * ctx.count
    return *gradients(ctx, grad, for_input, for_weight, wanted), None, None, None


class _Recorded(torch.autograd.Function):
    """The same for eager calls, for a tenth of what register_autograd's way costs a call."""

    @staticmethod
    def forward(
        ctx: Any, text: str, packed: int, input: torch.Tensor, weight: torch.Tensor, *operands: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(input, weight, *operands)
        ctx.text = text
        ctx.packed = packed
        return _bare(input, weight, operands, text, "torch", packed)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        _, _, for_input, for_weight, *wanted = ctx.needs_input_grad
        of_input, of_weight, grads = gradients(ctx, grad, for_input, for_weight, wanted)
        return None, None, of_input, of_weight, *grads


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


for _key, _device in (("AutocastCPU", "cpu"), ("AutocastCUDA", "cuda")):
    _definitions.impl("conv_transpose", _autocast(_device), _key)
    _definitions.impl("conv_transpose_bare", _autocast(_device), _key)


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
torch.library.register_vmap("convt::conv_transpose_bare", _vmap)


# ---- plans kept between calls


def set_plan_limit(limit: int) -> None:
    """Sets how many plans are kept between calls (256 at first); at least 1. The least recently used go first.

    >>> convt.torch.clear_plans()
    >>> y = convt.torch.conv_transpose1d(torch.ones(1, 2, 3), torch.ones(2, 1, 2))
    >>> convt.torch.plan_count()
    1
    """
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
