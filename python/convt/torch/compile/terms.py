# SPDX-License-Identifier: Apache-2.0
"""Additions, subtractions, multiplications and divisions: by numbers, values per channel and whole tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from .names import MISSING, bind, first
from .steps import Operand, Running, Step
from .values import number, same, same_shape, tensor_of, written


_GIVEN = ("placeholder", "get_attr")


def combined(name: str) -> Callable[[Running, Node], Step | str]:
    """The spelling of add, sub, mul, div and rsub."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, "other", alpha=1)
        if given is None or given["other"] is MISSING:
            return "its arguments are not understood"
        left, right = first(node), given["other"]
        if left is running.node and right is running.node:
            return "combines the value with itself"
        alpha = number(given["alpha"])
        if alpha is None:
            return "alpha is no constant number"
        turned = left is not running.node  # the value is the second term
        other = left if turned else right
        if name == "rsub":
            turned = not turned
        op = "sub" if name == "rsub" else name
        if alpha != 1 and turned and op == "add" and number(other) is None:  # r + alpha*x
            step = _combined(running, node, op, other, turned)
            return dataclasses.replace(step, ops=(f"mul({written(alpha)})", *step.ops)) if isinstance(step, Step) else step
        if alpha != 1:
            return _scaled(op, turned, number(other), alpha, node)
        return _combined(running, node, op, other, turned)

    return spelling


def _scaled(op: str, turned: bool, value: float | None, alpha: float, node: Node) -> Step | str:
    if value is None or op not in ("add", "sub") or turned:
        return "alpha is not 1"
    return Step(node, (f"{op}({written(value * alpha)})",))


def _combined(running: Running, node: Node, op: str, other: Any, turned: bool) -> Step | str:
    before: tuple[str, ...] = ()
    if turned and op == "sub":  # a - x is a + (-x)
        before, op = ("mul(-1)",), "add"
    elif turned and op == "div":  # a / x is a * x^-1
        before, op = ("pow(-1)",), "mul"
    value = number(other)
    if value is not None:
        return Step(node, (*before, *([] if before and value == 1 and op == "mul" else [f"{op}({written(value)})"])))
    tensor = tensor_of(other)
    result = tensor_of(node)
    if tensor is None or result is None:
        return "the other term is neither a number nor a tensor"
    if not same_shape(result.shape, running.tensor.shape):
        return "the other term makes the value larger"
    found = term(running, other, tensor)
    if isinstance(found, str):
        return found
    word, operand, f32 = found
    return Step(node, (*before, f"{op}({word}{', dtype=f32' if f32 else ''})"), (operand,))


def _then(first_step: Step | str, second: Step | str) -> Step | str:
    """Two steps of one node."""
    if isinstance(first_step, str) or isinstance(second, str):
        return first_step if isinstance(first_step, str) else second
    return Step(second.last, (*first_step.ops, *second.ops), (*first_step.operands, *second.operands))


def _scaled_operands(step: Step | str, factor: float) -> Step | str:
    """The step whose second term is multiplied by a number."""
    if factor == 1 or isinstance(step, str):
        return step

    def scaled(operand: Operand) -> Operand:
        def make(graph: Graph, node: Node) -> Node:
            made = node if operand.make is None else operand.make(graph, node)
            return graph.call_function(torch.mul, (made, factor))

        return dataclasses.replace(operand, make=make)

    return dataclasses.replace(step, operands=tuple(map(scaled, step.operands)))


def _multiplied(running: Running, node: Node, factor: float) -> Step:
    return Step(node, () if factor == 1 else (f"mul({written(factor)})",))


def added_product(op: str) -> Callable[[Running, Node], Step | str]:
    """addcmul and addcdiv, of whose three tensors the value is one: sum + value * a * b."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, "tensor1", "tensor2", value=1)
        value = None if given is None else number(given["value"])
        if given is None or value is None:
            return "its arguments are not understood"
        sum, a, b = first(node), given["tensor1"], given["tensor2"]
        if [sum, a, b].count(running.node) != 1:
            return "combines the value with itself"
        if sum is running.node:
            return "adds a product of other tensors"
        product = _combined(running, node, op, b if a is running.node else a, b is running.node)
        return _then(_then(product, _multiplied(running, node, value)), _combined(running, node, "add", sum, False))

    return spelling


def lerp(running: Running, node: Node) -> Step | str:
    """start + weight * (end - start), with a number for the weight."""
    given = bind(node, "end", "weight")
    weight = None if given is None else number(given["weight"])
    if given is None or weight is None:
        return "its weight is no constant number"
    start, end = first(node), given["end"]
    if start is end:
        return "combines the value with itself"
    own, rest = (1 - weight, weight) if start is running.node else (weight, 1 - weight)
    term = end if start is running.node else start
    value = number(term)
    if value is not None:
        return _then(_multiplied(running, node, own), Step(node, (f"add({written(rest * value)})",)))
    other = _combined(running, node, "add", term, False)
    return _then(_multiplied(running, node, own), _scaled_operands(other, rest))


def term(running: Running, node: Node, tensor: torch.Tensor) -> tuple[str, Operand, bool] | str:
    """A tensor as the second term: its word, the operand, and whether that is float32 beside another type."""
    dtype = running.dtype
    if tensor.device != running.tensor.device and tensor.dim() > 0:
        return "the other term is on another device"
    shape = (1,) * (len(running.axes) - tensor.dim()) + tuple(tensor.shape)
    busy = [axis for axes, size in zip(running.axes, shape) if not same(size, 1) for axis in axes]
    if not busy:
        return one_for_all(running, node, tensor)
    if tensor.dtype not in (dtype, torch.float32):
        return "the other term is of another type"
    f32 = tensor.dtype != dtype
    if busy == [1]:
        return "channel", Operand(node), f32
    if not running.plain:
        return "the other term is neither per channel nor a whole tensor"
    if not same_shape(shape, running.tensor.shape):
        return _broadcast(running, busy)
    if dtype.itemsize == 2 and is_open_under_autocast(node, tensor):
        return "the other term's type under autocast is known when it runs"
    return "tensor", Operand(node), f32


def _broadcast(running: Running, busy: list[int]) -> str:
    """Why a term of fewer elements is left: docs/python-measurements.md has the times."""
    parts = {"the batch": [0], "channels": [1], "space": range(2, running.rank)}
    over = [name for name, axes in parts.items()
            if not set(axes) & set(busy) and any(not same(running.sizes[axis], 1) for axis in axes)]
    if not over:
        return "the other term is broadcast along some axes of space"
    return f"the other term is broadcast over {' and '.join(over)}: a copy of the result's size costs more than it saves"


def is_open_under_autocast(node: Node, tensor: torch.Tensor) -> bool:
    """Whether a tensor's type is only known when it runs.

    Fake tensors do not follow all of CUDA's autocast: interpolate(), for one, gives float32 when it runs.
    """
    return tensor.is_cuda and torch.is_autocast_enabled("cuda") and node.op not in _GIVEN


def one_for_all(running: Running, node: Node, tensor: torch.Tensor) -> tuple[str, Operand, bool] | str:
    """A tensor of one element as a value per channel."""
    if tensor.device != running.tensor.device:
        return "the other term is on another device"
    dtype = running.dtype
    return "channel", Operand(node, _spread(running.channels, dtype, tensor)), dtype.itemsize == 2


def prelu(running: Running, node: Node) -> Step | str:
    """One slope, or one per channel."""
    given = bind(node, "weight")
    tensor = None if given is None else tensor_of(given["weight"])
    if given is None or tensor is None or not running.batch_first:
        return "its arguments are not understood"
    if same(tensor.numel(), 1):
        found = one_for_all(running, given["weight"], tensor)
    elif tensor.dtype not in (running.dtype, torch.float32) or tensor.device != running.tensor.device:
        return "its slopes are of another type or on another device"
    else:
        found = "channel", Operand(given["weight"]), tensor.dtype != running.dtype
    if isinstance(found, str):
        return found
    _, operand, f32 = found
    return Step(node, ("prelu(dtype=f32)" if f32 else "prelu",), (operand,))


def _spread(channels: Any, dtype: torch.dtype, tensor: torch.Tensor) -> Callable[[Graph, Node], Node]:
    """One element, for every channel."""
    wanted = torch.float64 if dtype == torch.float64 else torch.float32

    def make(graph: Graph, node: Node) -> Node:
        if tensor.dtype != wanted:
            node = graph.call_method("to", (node, wanted))
        flat = graph.call_method("reshape", (node, (1,)))
        return graph.call_method("expand", (flat, (int(channels),)))

    return make


def limits(node: Node, least: Any, most: Any) -> Step | str:
    """clamp, with constant numbers."""
    words = []
    for word, value in (("min", least), ("max", most)):
        if value is None:
            continue
        limit = number(value)
        if limit is None:
            return "a limit is no constant number"
        words.append(f"{word}={written(limit)}")
    return Step(node, (f"clamp({', '.join(words)})",)) if words else "clamps to nothing"
