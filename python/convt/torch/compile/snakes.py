# SPDX-License-Identifier: Apache-2.0
"""Snake, as vocoders write it: x + sin(alpha * x)**2 / (alpha + 1e-9), with an alpha per channel."""

from __future__ import annotations

from torch.fx import Node

from .names import bind, first, name_of, writes_in_place
from .steps import Running, Step, each_of
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
    """The alpha of alpha + 1e-9, or alpha itself; and the nodes on the way."""
    terms = _two(node, "add")
    for value, small in ((terms, terms[::-1]) if terms else ()):
        eps = number(small)
        if isinstance(value, Node) and eps is not None and 0 <= eps <= 1e-8:
            return value, (node,)
    return node, ()


def _scaled(node: Node) -> tuple[Node, Node, tuple[Node, ...]] | None:
    """The wave and the alpha of wave / (alpha + 1e-9), however it is divided; and the nodes on the way."""
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
            alpha, on_the_way = _divisor(divisor)
            return wave, alpha, (*on_the_way, factor)
    return None


def _wave(addend: Node) -> tuple[Node, Node, tuple[Node, ...]] | None:
    """The x and the alpha of sin(alpha * x)**2 / (alpha + 1e-9), and the nodes on the way."""
    scaled = _scaled(addend)
    if scaled is None:
        return None
    square, alpha, divisor = scaled
    sine = _squared(square)
    if not isinstance(sine, Node) or name_of(sine) != "sin" or writes_in_place(sine):
        return None
    product = first(sine)
    factors = _two(product, "mul") if isinstance(product, Node) else None
    for x, factor in ((factors, factors[::-1]) if factors else ()):
        if factor is alpha and isinstance(x, Node):
            return x, alpha, (*divisor, product, sine, square, addend)
    return None


def snake_to(node: Node) -> tuple[Node, Step] | None:
    """The value to which a node, with nodes that nothing else uses, applies snake; and the step from there."""
    terms = _two(node, "add")
    for source, addend in ((terms, terms[::-1]) if terms else ()):
        wave = _wave(addend) if isinstance(addend, Node) else None
        if wave is None or wave[0] is not source:
            continue
        x, alpha, through = wave
        if any(not set(inner.users) <= {*through, node} for inner in through):
            continue
        tensor, values, result = tensor_of(x), tensor_of(alpha), tensor_of(node)
        if tensor is None or values is None or result is None or not same_shape(result.shape, tensor.shape):
            continue
        found = term(Running(x, each_of(tensor.dim()), tensor.dim()), alpha, values)
        if isinstance(found, tuple) and found[0] == "channel":
            _, operand, f32 = found
            return x, Step(node, ("snake(dtype=f32)" if f32 else "snake",), (operand,), through=through)
    return None


def snake(running: Running) -> Step | None:
    """The step of a snake behind the running value, all of whose uses it takes up."""
    if not running.plain:
        return None
    for user in running.node.users:
        found = snake_to(user)
        if found is not None and found[0] is running.node and set(running.node.users) <= {*found[1].through, user}:
            return found[1]
    return None
