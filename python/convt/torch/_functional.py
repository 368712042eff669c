# SPDX-License-Identifier: Apache-2.0
"""conv_transpose1d, 2d and 3d on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _library
from .._op import Op
from . import _chain, _op
from ._kernel import suggests_channels_last

if TYPE_CHECKING:
    Sizes = int | Sequence[int]
    Epilogue = str | Op | Sequence[str | Op]


def float32_precision(device: torch.device) -> str:
    """How float32 products may be computed there, by PyTorch's own switches for convolutions."""
    if device.type != "cuda":
        return "ieee"
    conv = getattr(torch.backends.cudnn, "conv", None)
    if conv is not None and hasattr(conv, "fp32_precision"):
        return "tf32" if conv.fp32_precision == "tf32" else "ieee"
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def chain_text(epilogue: Epilogue, dtype: torch.dtype) -> tuple[str, list[torch.Tensor]]:
    """The chain of an epilogue for tensors of a type, and the tensors that go along with it."""
    if isinstance(epilogue, str):
        return epilogue.strip(), []
    if isinstance(epilogue, Op):
        epilogue = [epilogue]
    texts: list[str] = []
    operands: list[torch.Tensor] = []
    for op in epilogue:
        if isinstance(op, Op):
            texts.append(op.text_for(all(operand.dtype == dtype for operand in op.operands)))
            operands.extend(op.operands)
        else:
            texts.append(str(op).strip())
    return " | ".join(filter(None, texts)), operands


def _layout(
    input: torch.Tensor, weight: torch.Tensor, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> str:
    """The result's layout: that of PyTorch's own convolution, which depends on how it would compute it."""
    if torch.compiler.is_compiling() or not (suggests_channels_last(input) or suggests_channels_last(weight)):
        return ""
    dims = input.dim() - 2
    each = [(value,) * dims if isinstance(value, int) else tuple(value) for value in (stride, padding, dilation)]
    extra = (output_padding,) * dims if isinstance(output_padding, int) else tuple(output_padding)
    backend = torch._C._select_conv_backend(input, weight, None, *each, True, extra, groups)
    chosen = torch._C._conv_determine_backend_memory_format(input, weight, backend)
    return "channels_first" if chosen == torch.contiguous_format else "channels_last"


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
) -> torch.Tensor:
    if input.dim() == dims + 1:  # without a batch
        result = _conv_transpose(
            dims, input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation, epilogue, precision,
            None if out is None else out.unsqueeze(0), operands, packed)
        return result.squeeze(0) if out is None else out
    if weight.dim() != dims + 2 or input.dim() != dims + 2:
        raise _library.ConvtError(
            f"conv_transpose{dims}d: expected input and weight of {dims + 2} axes (got {input.dim()} and {weight.dim()})")
    tensors: Sequence[torch.Tensor] = operands
    if epilogue:
        chain, own = chain_text(epilogue, input.dtype)
        if own:
            tensors = [*own, *operands]
    else:
        chain = ""
    if bias is not None:
        word = "bias" if bias.dtype == input.dtype else "bias(dtype=f32)"
        chain = f"{word} | {chain}" if chain else word
        tensors = (bias, *tensors)
    if precision is None:
        precision = "ieee" if input.device.type == "cpu" else float32_precision(input.device)
    text = _chain.fields(
        stride if isinstance(stride, int) else tuple(stride), padding if isinstance(padding, int) else tuple(padding),
        output_padding if isinstance(output_padding, int) else tuple(output_padding), groups,
        dilation if isinstance(dilation, int) else tuple(dilation), precision, chain)
    if out is None:
        layout = _layout(input, weight, stride, padding, output_padding, groups, dilation)
        return _op.call(input, weight, tensors, text, layout, packed)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (input, weight, out, *tensors)):
        raise RuntimeError(
            "convt: out= has no gradients, and an argument requires one: call it in torch.no_grad(), or leave out= out")
    _op.conv_transpose_out(input, weight, tensors, text, packed, out)
    return out


def _function(dims: int) -> Any:
    texts: dict[Any, str] = {}  # of calls without an epilogue, by their numbers: few, in any program
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
        epilogue: Epilogue = (),
        operands: Sequence[torch.Tensor] = (),
        precision: str | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        # The commonest call, by a short way: it should not cost more than PyTorch's own.
        short = not compiling() and epilogue == () and out is None and precision is None and operands == () and input.is_cpu
        if short:
            kind = (stride, padding, output_padding, groups, dilation)
            try:
                text = texts.get((kind, bias is None))
            except TypeError:  # lists
                text = None
            # Strides of axes with one element may suggest another layout: that is for the long way.
            if (
                text is not None and input.dim() == axes == weight.dim() and input.is_contiguous()
                and weight.is_contiguous() and input.stride(-1) == 1 == weight.stride(-1)
            ):
                if bias is None:
                    return call(input, weight, (), text)
                if bias.dtype is input.dtype:
                    return call(input, weight, (bias,), text)
        result = _conv_transpose(
            dims, input, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, precision, out,
            operands)
        if short and len(texts) < 1024 and all(isinstance(value, (int, tuple)) for value in kind):
            texts[kind, bias is None] = _chain.fields(*kind, "ieee", "" if bias is None else "bias")
        return result

    conv_transpose.__name__ = conv_transpose.__qualname__ = f"conv_transpose{dims}d"
    conv_transpose.__doc__ = f"""torch.nn.functional.conv_transpose{dims}d, with a chain of operations behind it in the same pass.

    `epilogue` is a list of convt.ops, or text; tensors that a text's operations take are given as `operands`, in their
    order. `precision` is "ieee" or "tf32"; without it, CUDA tensors follow torch.backends.cudnn.conv.fp32_precision.
    The result lies in memory as PyTorch's convolution would lay it; `out` may lie either way.
    """
    return conv_transpose


conv_transpose1d = _function(1)
conv_transpose2d = _function(2)
conv_transpose3d = _function(3)
