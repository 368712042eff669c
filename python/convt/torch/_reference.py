# SPDX-License-Identifier: Apache-2.0
"""A call in PyTorch's own operations: for gradients, which PyTorch computes, and for what convt cannot batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
import torch.nn.functional as F

from .. import _library
from ._chain import Call, Op, pool_sizes

_POOLS = {
    "max_pool": (F.max_pool1d, F.max_pool2d, F.max_pool3d),
    "avg_pool": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
}
_CONVOLUTIONS = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


@functools.cache
def _expressions() -> dict[str, CodeType]:
    """Each op as the library describes it in PyTorch's terms, ready to evaluate."""
    return {row["name"]: compile(row["torch"], f"<convt op {row['name']}>", "eval") for row in _library.describe_ops()}


def convolution(input: torch.Tensor, weight: torch.Tensor, call: Call) -> torch.Tensor:
    """The transposed convolution alone."""
    dims = input.dim() - 2
    return _CONVOLUTIONS[dims - 1](
        input, weight, None, call.stride, call.padding, call.output_padding, call.groups, call.dilation)


def _per_channel(value: torch.Tensor, dims: int) -> torch.Tensor:
    return value.reshape(-1, *(1,) * dims)


def _batch_norm(x: torch.Tensor, op: Op, given: dict[str, torch.Tensor], dims: int) -> torch.Tensor:
    """In single steps: PyTorch's own has no gradients for mean and variance."""
    scale = torch.rsqrt(given["var"] + op.parameters["eps"])
    if "weight" in given:
        scale = scale * given["weight"]
    result = (x - _per_channel(given["mean"], dims)) * _per_channel(scale, dims)
    return result + _per_channel(given["bias"], dims) if "bias" in given else result


def _along(function: Callable[[torch.Tensor, int], torch.Tensor], x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """A function along one axis, along several as if they were one."""
    last = list(range(-len(dims), 0))
    moved = x.movedim(tuple(dims), tuple(last))
    return function(moved.flatten(-len(dims)), -1).view(moved.shape).movedim(tuple(last), tuple(dims))


def _apply(
    x: torch.Tensor, op: Op, given: dict[str, torch.Tensor], kept: dict[str, torch.Tensor]
) -> torch.Tensor:
    dims = x.dim() - 2
    if op.name == "batch_norm":
        return _batch_norm(x, op, given, dims)
    names: dict[str, Any] = {"weight": None, "bias": None, **op.parameters, **given}
    names.update(x=x, F=F, torch=torch, along=_along, dims=op.dims(x.dim()))
    if "size" in op.parameters:
        names["size"], names["stride"], names["padding"] = pool_sizes(op, dims)
        names.update({name: functions[dims - 1] for name, functions in _POOLS.items()})
    term = op.parameters.get("other")
    if term == "channel":
        names["other"] = _per_channel(given["other"], dims)
    elif term in kept:
        names["other"] = kept[term]
    result: torch.Tensor = eval(_expressions()[op.name], names)  # the library's own expressions
    return result


def _run(value: torch.Tensor, operands: Sequence[torch.Tensor], ops: Sequence[Op]) -> torch.Tensor:
    """What ops make of a value; computed in float32 at least."""
    dtype = value.dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = value.to(wide)
    rest = [operand.to(wide) for operand in operands]
    kept = {"conv": x}
    for op in ops:
        if op.name == "keep":
            kept[op.parameters["name"]] = x
            continue
        given = dict(zip(op.operands, rest))
        rest = rest[len(op.operands) :]
        x = _apply(x, op, given, kept)
    return x.to(dtype)


def prologue(input: torch.Tensor, operands: Sequence[torch.Tensor], call: Call) -> torch.Tensor:
    """What the prologue makes of the input."""
    return _run(input, operands, call.prologue)


def chain(conv: torch.Tensor, operands: Sequence[torch.Tensor], call: Call) -> torch.Tensor:
    """What the chain makes of the convolution's result."""
    return _run(conv, operands, call.chain)


def run(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], call: Call
) -> torch.Tensor:
    """The whole call."""
    first = call.prologue_operands
    input = prologue(input, operands[:first], call)
    return chain(convolution(input, weight, call), operands[first:], call)
