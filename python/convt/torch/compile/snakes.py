# SPDX-License-Identifier: Apache-2.0
"""Snake, as vocoders write it: x + sin(alpha * x)**2 / (alpha + 1e-9), with an alpha per channel.

Or with a beta of its own in place of the second alpha: the vocabulary's snake, whose wave is scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.fx import Graph, Node

from .names import bind, first, name_of, writes_in_place
from .steps import Operand, Running, Step, each_of
from .terms import term
from .values import number, same_shape, tensor_of


def _two(node: Node, name: str) -> tuple[object, object] | None:
    """The two terms of a sum, product or quotient."""
    given = bind(node, "other", alpha=1)
    if name_of(node) != name or writes_in_place(node) or given is None or number(given["alpha"]) != 1:
        return None
    return first(node), given["other"]


def _squared(node: Node) -> object:
    """What is squared."""
    if writes_in_place(node):
        return None
    if name_of(node) == "square":
        return first(node)
    given = bind(node, "exponent") if name_of(node) == "pow" else None
    if given is not None:
        return first(node) if number(given["exponent"]) == 2 else None
    terms = _two(node, "mul")
    return terms[0] if terms and terms[0] is terms[1] else None


def _divisor(node: Node) -> tuple[Node, tuple[Node, ...]]:
    """The beta of beta + 1e-9, or beta itself; and the nodes on the way."""
    terms = _two(node, "add")
    for value, small in ((terms, terms[::-1]) if terms else ()):
        eps = number(small)
        if isinstance(value, Node) and eps is not None and 0 <= eps <= 1e-8:
            return value, (node,)
    return node, ()


def _scaled(node: Node) -> tuple[Node, Node, tuple[Node, ...]] | None:
    """The wave and the beta of wave / (beta + 1e-9), however it is divided; and the nodes on the way."""
    terms = _two(node, "div")
    if terms is not None and isinstance(terms[0], Node) and isinstance(terms[1], Node):
        return (terms[0], *_divisor(terms[1]))
    terms = _two(node, "mul")
    for wave, factor in ((terms, terms[::-1]) if terms else ()):
        if not isinstance(wave, Node) or not isinstance(factor, Node) or writes_in_place(factor):
            continue
        quotient = _two(factor, "div")
        divisor = first(factor) if name_of(factor) == "reciprocal" else (
            quotient[1] if quotient and number(quotient[0]) == 1 else None)
        if isinstance(divisor, Node):
            beta, on_the_way = _divisor(divisor)
            return wave, beta, (*on_the_way, factor)
    return None


def _wave(addend: Node) -> Iterator[tuple[Node, Node, Node, tuple[Node, ...]]]:
    """The x, alpha and beta that sin(alpha * x)**2 / (beta + 1e-9) may have, and the nodes on the way."""
    scaled = _scaled(addend)
    if scaled is None:
        return
    square, beta, divisor = scaled
    sine = _squared(square)
    if not isinstance(sine, Node) or name_of(sine) != "sin" or writes_in_place(sine):
        return
    product = first(sine)
    factors = _two(product, "mul") if isinstance(product, Node) else None
    for x, alpha in ((factors, factors[::-1]) if factors else ()):
        if isinstance(x, Node) and isinstance(alpha, Node):
            yield x, alpha, beta, (*divisor, product, sine, square, addend)


_EPS = 1e-9  # which the vocabulary's snake adds


def _ratio(beta: Node) -> Callable[[Graph, Node], Node]:
    """The factor of the wave that has alpha below it: alpha / beta."""

    def make(graph: Graph, alpha: Node) -> Node:
        above, below = (graph.call_function(torch.add, (node, _EPS)) for node in (alpha, beta))
        return graph.call_function(torch.div, (above, below))

    return make


def _step(
    x: Node, alpha: Node, beta: Node, node: Node, through: tuple[Node, ...], dtype: torch.dtype | None
) -> Step | None:
    tensor = tensor_of(x)
    assert tensor is not None
    running = Running(x, each_of(tensor.dim()), tensor.dim(), given_dtype=dtype)
    ops: list[str] = []
    operands: list[Operand] = []
    for op, values in (("snake", alpha), ("mul", beta)):
        value = tensor_of(values)
        found = term(running, values, value) if value is not None else ""
        if not isinstance(found, tuple) or found[0] != "channel":
            return None
        _, operand, f32 = found
        if op == "snake":
            ops.append("snake(dtype=f32)" if f32 else "snake")
            operands.append(operand)
        elif beta is not alpha:
            if operand.make is not None or operands[0].make is not None or f32 != ("dtype" in ops[0]):
                return None
            ops = ["keep(@x)", *ops, "sub(@x)", "mul(channel, dtype=f32)" if f32 else "mul(channel)", "add(@x)"]
            operands.append(Operand(alpha, _ratio(beta), (beta,)))
    return Step(node, tuple(ops), tuple(operands), through=through)


def snake_to(node: Node, dtype: torch.dtype | None = None) -> tuple[Node, Step] | None:
    """The value to which a node, with nodes that nothing else uses, applies snake; and the step from there.

    `dtype` is the call's, where it is not the value's.
    """
    terms = _two(node, "add")
    for source, addend in ((terms, terms[::-1]) if terms else ()):
        for x, alpha, beta, through in _wave(addend) if isinstance(addend, Node) else ():
            tensor, result = tensor_of(x), tensor_of(node)
            if x is not source or any(not set(inner.users) <= {*through, node} for inner in through):
                continue
            if tensor is None or result is None or not same_shape(result.shape, tensor.shape):
                continue
            step = _step(x, alpha, beta, node, through, dtype)
            if step is not None:
                return x, step
    return None


def snake(running: Running) -> Step | None:
    """The step of a snake behind the running value, all of whose uses it takes up."""
    if not running.plain:
        return None
    for user in running.node.users:
        found = snake_to(user, running.dtype)
        if found is not None and found[0] is running.node and set(running.node.users) <= {*found[1].through, user}:
            return found[1]
    return None
