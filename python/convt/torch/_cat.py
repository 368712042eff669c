# SPDX-License-Identifier: Apache-2.0
"""The operator convt::conv_transpose_cat: torch.cat([*before, conv_transpose(...), *after], 1), in one tensor.

The convolution writes its channels where they belong; the other tensors are copied beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _chain, _kernel
from ._gradients import gradients
from ._op import _definitions, _register_fake, conv_transpose_out

_definitions.define(
    "conv_transpose_cat(Tensor input, Tensor weight, Tensor[] operands, str text, str layout, int packed, "
    "Tensor[] before, Tensor[] after) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))

Tensors = Sequence[torch.Tensor]


def _channels(tensors: Tensors) -> Any:
    return sum(tensor.shape[1] for tensor in tensors)


def _empty(
    input: torch.Tensor, weight: torch.Tensor, operands: Tensors, text: str, layout: str, packed: int, before: Tensors,
    after: Tensors,
) -> torch.Tensor:
    """The result's memory; `layout` is channels_first or channels_last."""
    shape = _chain.output_shape(_chain.parse(text, input.dim() - 2), input.shape, weight.shape)
    shape[1] = shape[1] + _channels(before) + _channels(after)
    return input.new_empty_strided(shape, _kernel.dense_strides(shape, layout == "channels_last"))


def _run(
    input: torch.Tensor, weight: torch.Tensor, operands: Tensors, text: str, layout: str, packed: int, before: Tensors,
    after: Tensors,
) -> torch.Tensor:
    result = _empty(input, weight, operands, text, layout, packed, before, after)
    first, behind = _channels(before), _channels(after)
    own = result.shape[1] - first - behind
    for tensors, at in ((before, 0), (after, first + own)):
        for tensor in tensors:
            result.narrow(1, at, tensor.shape[1]).copy_(tensor)
            at += tensor.shape[1]
    conv_transpose_out(input, weight, operands, text, packed, result.narrow(1, first, own))
    return result


for _key in ("CPU", "CUDA"):
    _definitions.impl("conv_transpose_cat", _run, _key)
_register_fake("convt::conv_transpose_cat", _empty)

conv_transpose_cat: Callable[..., torch.Tensor] = torch.ops.convt.conv_transpose_cat.default


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    input, weight, operands, text, _, packed, before, after = inputs
    ctx.save_for_backward(input, weight, *operands)
    ctx.text, ctx.packed, ctx.count = text, packed, len(operands)
    ctx.before, ctx.after = ([tensor.shape[1] for tensor in tensors] for tensors in (before, after))


def _wanted(needs: Any, count: int) -> list[bool]:
    return list(needs) if isinstance(needs, (list, tuple)) else [bool(needs)] * count


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    for_input, for_weight, for_operands, *_, for_before, for_after = ctx.needs_input_grad
    own = grad.shape[1] - sum(ctx.before) - sum(ctx.after)
    parts: Any = torch.split_with_sizes(grad, [*ctx.before, own, *ctx.after], 1)
    count = len(ctx.before)
    before = [part if want else None for part, want in zip(parts[:count], _wanted(for_before, count))]
    after = [part if want else None for part, want in zip(parts[count + 1 :], _wanted(for_after, len(ctx.after)))]
    wanted = _wanted(for_operands, ctx.count)
    found = gradients(ctx, parts[count], for_input, for_weight, wanted)
    return *found, None, None, None, before, after


torch.library.register_autograd("convt::conv_transpose_cat", _backward, setup_context=_setup_context)


def _vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[torch.Tensor, int]:
    """One by one."""

    def one(value: Any, dim: Any, index: int) -> Any:
        if isinstance(value, (list, tuple)):
            dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(value)
            return [one(item, of_item, index) for item, of_item in zip(value, dims)]
        return value if dim is None or not isinstance(value, torch.Tensor) else value.select(dim, index)

    results = [
        conv_transpose_cat(*(one(value, dim, index) for value, dim in zip(arguments, in_dims)))
        for index in range(info.batch_size)
    ]
    return torch.stack(results), 0


torch.library.register_vmap("convt::conv_transpose_cat", _vmap)
