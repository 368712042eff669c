# SPDX-License-Identifier: Apache-2.0
"""conv_transpose1d, 2d and 3d on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _library
from .._op import Op
from . import _chain, _op, _precision

if TYPE_CHECKING:
    Sizes = int | Sequence[int]
    Epilogue = str | Op | Sequence[str | Op]


def _operand_count(chain: str) -> int:
    return len(_chain.parse(f"| {chain}", 1).operand_roles())


_assume_constant: Any = torch.compiler.assume_constant_result
_assume_constant(_operand_count)  # Dynamo cannot look into the library's tables


def chain_text(
    epilogue: Epilogue, dtype: torch.dtype, given: list[torch.Tensor]
) -> tuple[str, list[torch.Tensor]]:
    """The chain of an epilogue for tensors of a type, and its tensors in their order: those of ops go along with them,
    and those of text are taken from the front of the ones given."""
    texts: list[str] = []
    operands: list[torch.Tensor] = []
    for op in [epilogue] if isinstance(epilogue, (str, Op)) else epilogue:
        if isinstance(op, Op) and op.operands:
            texts.append(op.text_for(all(operand.dtype == dtype for operand in op.operands)))
            operands.extend(op.operands)
            continue
        texts.append(str(op).strip())
        if given and texts[-1]:
            count = _operand_count(texts[-1])
            operands += given[:count]
            del given[:count]
    return " | ".join(filter(None, texts)), operands


def _conv_transpose(
    dims: int,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
    epilogue: Epilogue,
    precision: str | None,
    out: torch.Tensor | None,
    operands: Sequence[torch.Tensor] = (),
    packed: int = 0,
    prologue: Epilogue = (),
) -> torch.Tensor:
    if input.dim() == dims + 1:  # without a batch
        result = _conv_transpose(
            dims, input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation, epilogue, precision,
            None if out is None else out.unsqueeze(0), operands, packed, prologue)
        return result.squeeze(0) if out is None else out
    if weight.dim() != dims + 2 or input.dim() != dims + 2:
        raise _library.ConvtError(
            f"conv_transpose{dims}d: expected input and weight of {dims + 2} axes (got {input.dim()} and {weight.dim()})")
    given = list(operands)
    before, tensors = chain_text(prologue, input.dtype, given) if prologue else ("", [])
    chain, own = chain_text(epilogue, input.dtype, given) if epilogue else ("", [])
    if bias is not None:
        word = "bias" if bias.dtype == input.dtype else "bias(dtype=f32)"
        chain = f"{word} | {chain}" if chain else word
        tensors.append(bias)
    tensors += [*own, *given]  # too many are for the operator to refuse
    if precision is None:
        precision = _precision.of_call(input.device)
    text = _chain.fields(
        stride if isinstance(stride, int) else tuple(stride), padding if isinstance(padding, int) else tuple(padding),
        output_padding if isinstance(output_padding, int) else tuple(output_padding), groups,
        dilation if isinstance(dilation, int) else tuple(dilation), precision, chain, before)
    if out is None:
        return _op.call(input, weight, tensors, text, packed)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (input, weight, out, *tensors)):
        raise RuntimeError(
            "convt: out= has no gradients, and an argument requires one: call it in torch.no_grad(), or leave out= out")
    _op.conv_transpose_out(input, weight, tensors, text, packed, out)
    return out


def _function(dims: int) -> Any:
    texts: dict[Any, str] = {}  # of the call by its numbers and words: few, in any program
    axes = dims + 2
    call, compiling = _op.call, torch.compiler.is_dynamo_compiling

    def conv_transpose(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        *,
        prologue: Epilogue = (),
        epilogue: Epilogue = (),
        operands: Sequence[torch.Tensor] = (),
        precision: str | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        # The commonest calls, by a short way: they should not cost more than PyTorch's own.
        kind: Any = None
        if out is None and prologue == () and not compiling() and (
            epilogue == () or isinstance(epilogue, str)
        ) and input.dim() == axes:
            if precision is None:
                precision = "ieee" if input.is_cpu else _precision.of_call(input.device)
            kind = (stride, padding, output_padding, groups, dilation, epilogue, precision, bias is None)
            try:
                text = texts.get(kind)
            except TypeError:  # lists
                text = kind = None
            if text is not None:
                if bias is None:
                    return call(input, weight, operands, text)
                if bias.dtype is input.dtype:
                    return call(input, weight, (bias, *operands), text)
        result = _conv_transpose(
            dims, input, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, precision, out,
            operands, 0, prologue)
        if kind is not None and len(texts) < 1024:
            chain = " | ".join(filter(None, ("" if bias is None else "bias", str(epilogue).strip() if epilogue else "")))
            texts[kind] = _chain.fields(stride, padding, output_padding, groups, dilation, precision, chain)
        return result

    conv_transpose.__name__ = conv_transpose.__qualname__ = f"conv_transpose{dims}d"
    conv_transpose.__doc__ = f"""torch.nn.functional.conv_transpose{dims}d, with a chain of operations behind it in the same pass.

    `epilogue` is a list of convt.ops, or text; tensors that a text's operations take are given as `operands`, in their
    order. `prologue` is the same for operations on the input, before the convolution. `precision` is "ieee" or "tf32";
    without it, CUDA tensors follow torch.backends.cudnn.conv.fp32_precision. The result lies in memory as PyTorch's
    convolution would lay it; `out` may lie either way, and be a range of a wider tensor's channels. As with PyTorch's own
    functions, a call with `out` goes through no autocast.

    >>> x, weight, scale = torch.ones(1, 2{", 3" * dims}), torch.ones(2, 4{", 2" * dims}), torch.full((4,), 0.5)
    >>> convt.torch.conv_transpose{dims}d(x, weight, stride=2, epilogue=[convt.ops.mul(scale), convt.ops.relu()]).shape
    torch.Size([1, 4{", 6" * dims}])
    """
    return conv_transpose


conv_transpose1d = _function(1)
conv_transpose2d = _function(2)
conv_transpose3d = _function(3)
