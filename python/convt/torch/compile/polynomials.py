# SPDX-License-Identifier: Apache-2.0
"""What is made of a convolution's result and itself again: x + x0, x * x0, x * x.

Sums and products of the result, of numbers and of values per channel are a polynomial of the convolution, with
coefficients per channel. As a chain it is computed by Horner's rule: (a * x + b) * conv + c.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Union

import torch
from torch.fx import Graph, Node

from .names import MISSING, bind, first, name_of, writes_in_place
from .regions import closed
from .steps import Operand, Running, Step
from .values import number, same, same_shape, tensor_of, written

_HIGHEST = 3
_MOST_NODES = 32


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A coefficient of one element per channel, or of one for all: a node's, or made of others."""

    node: Node | None = None
    function: Callable[..., Any] | None = None
    terms: tuple["Coefficient", ...] = ()

    def nodes(self) -> Iterator[Node]:
        if self.node is not None:
            yield self.node
        for term in self.terms:
            if isinstance(term, Tensor):
                yield from term.nodes()

    def build(self, graph: Graph) -> Node:
        if self.node is not None:
            return graph.call_method("reshape", (self.node, (-1,)))
        assert self.function is not None
        return graph.call_function(
            self.function, tuple(term.build(graph) if isinstance(term, Tensor) else term for term in self.terms))


Coefficient = Union[float, Tensor]
Polynomial = tuple[Coefficient, ...]  # the constant first


def _plus(a: Coefficient, b: Coefficient) -> Coefficient:
    if isinstance(a, float) and isinstance(b, float):
        return a + b
    if a == 0.0:
        return b
    return a if b == 0.0 else Tensor(function=torch.add, terms=(a, b) if isinstance(a, Tensor) else (b, a))


def _times(a: Coefficient, b: Coefficient) -> Coefficient:
    if isinstance(a, float) and isinstance(b, float):
        return a * b
    if a == 0.0 or b == 0.0:
        return 0.0
    if a == 1.0:
        return b
    return a if b == 1.0 else Tensor(function=torch.mul, terms=(a, b) if isinstance(a, Tensor) else (b, a))


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    size = max(len(a), len(b))
    a, b = (p + (0.0,) * (size - len(p)) for p in (a, b))
    return tuple(map(_plus, a, b))


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: list[Coefficient] = [0.0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] = _plus(result[i + j], _times(x, y))
    return tuple(result)


def _value(running: Running, value: Any, known: dict[Node, Polynomial]) -> Polynomial | None:
    if isinstance(value, Node) and value in known:
        return known[value]
    constant = number(value)
    if constant is not None:
        return (constant,)
    tensor = tensor_of(value)
    if tensor is None or tensor.dtype != running.tensor.dtype or tensor.device != running.tensor.device:
        return None
    if tensor.dim() > running.rank:
        return None
    shape = (1,) * (running.rank - tensor.dim()) + tuple(tensor.shape)
    busy = [axis for axis, size in enumerate(shape) if not same(size, 1)]
    return (Tensor(value),) if busy in ([], [1]) else None


def _of(running: Running, node: Node, known: dict[Node, Polynomial]) -> Polynomial | None:
    """The polynomial that a node computes."""
    name = name_of(node)
    value = _value(running, first(node), known)
    result = tensor_of(node)
    if value is None or writes_in_place(node) or result is None or not same_shape(result.shape, running.tensor.shape):
        return None
    if name == "neg":
        return _product(value, (-1.0,))
    if name in ("clone", "positive") or (name == "detach" and not running.tensor.requires_grad):
        return value
    if name == "square":
        return _product(value, value)
    given = bind(node, "other", alpha=1)
    if given is None or given["other"] is MISSING or number(given["alpha"]) != 1:
        return None
    if name == "pow":
        power = number(given["other"])
        square = _product(value, value)
        return square if power == 2 else _product(square, value) if power == 3 else None
    other = _value(running, given["other"], known)
    if other is None:
        return None
    if name == "add":
        return _sum(value, other)
    if name == "sub":
        return _sum(value, _product(other, (-1.0,)))
    if name == "rsub":
        return _sum(other, _product(value, (-1.0,)))
    if name == "mul":
        return _product(value, other)
    if name == "div" and len(other) == 1 and isinstance(other[0], float) and other[0] != 0:
        return _product(value, (1 / other[0],))
    return None


def _operand(running: Running, coefficient: Tensor) -> Operand:
    nodes = tuple(coefficient.nodes())
    channels = running.channels

    def make(graph: Graph, node: Node) -> Node:
        return graph.call_function(torch.broadcast_to, (coefficient.build(graph), (int(channels),)))

    return Operand(nodes[0], make, nodes[1:])


def _step(running: Running, end: Node, through: list[Node], coefficients: Polynomial) -> Step:
    ops: list[str] = []
    operands: list[Operand] = []

    def put(op: str, coefficient: Coefficient, nothing: float) -> None:
        if isinstance(coefficient, Tensor):
            ops.append(f"{op}(channel)")
            operands.append(_operand(running, coefficient))
        elif coefficient != nothing:
            ops.append(f"{op}({written(coefficient)})")

    *rest, highest = coefficients
    put("mul", highest, 1.0)
    for index, coefficient in enumerate(reversed(rest)):
        if index > 0:
            ops.append("mul(conv)")
        put("add", coefficient, 0.0)
    return Step(end, tuple(ops), tuple(operands), through=tuple(through), instead=True)


def polynomial(running: Running, bias: Node | None) -> Step | None:
    """The step to the nearest place where the convolution's result and all that was made of it have come together."""
    if running.tensor.dtype not in (torch.float32, torch.float64):
        return None
    known: dict[Node, Polynomial] = {running.node: (0.0 if bias is None else Tensor(bias), 1.0)}
    node = running.node.next
    while node.op != "root" and len(known) <= _MOST_NODES:
        if any(value in known for value in node.all_input_nodes):
            found = _of(running, node, known)
            if found is not None and len(found) <= _HIGHEST + 1:
                known[node] = found
        node = node.next
    nodes = list(known)[1:]
    for end in nodes:
        through = closed(running, nodes, end)
        if through is not None:
            return _step(running, end, through, known[end]) if len(known[end]) > 1 else None
    return None
