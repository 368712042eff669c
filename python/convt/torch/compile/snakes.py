# SPDX-License-Identifier: Apache-2.0
"""Snake, as vocoders write it: x + sin(alpha * x)**2 / (alpha + 1e-9), with an alpha per channel."""

from __future__ import annotations

from torch.fx import Node

from .names import bind, first, name_of, writes_in_place
from .steps import Operand, Running, Step, each_of
from .terms import term
from .values import number, tensor_of


def _two(node: Node, name: str) -> tuple[object, object] | None:
    """The two terms of a sum, product or quotient."""
    given = bind(node, "other", alpha=1)
    if name_of(node) != name or writes_in_place(node) or given is None or number(given["alpha"]) != 1:
        return None
    return first(node), given["other"]


def _squared(node: object) -> Node | None:
    """What is squared."""
    if not isinstance(node, Node) or writes_in_place(node):
        return None
    if name_of(node) == "square":
        return first(node)
    given = bind(node, "exponent") if name_of(node) == "pow" else None
    if given is not None:
        return first(node) if number(given["exponent"]) == 2 else None
    terms = _two(node, "mul")
    return terms[0] if terms and terms[0] is terms[1] and isinstance(terms[0], Node) else None


def _divisor(node: object) -> Node | None:
    """The alpha of alpha + 1e-9, or alpha itself."""
    if not isinstance(node, Node):
        return None
    terms = _two(node, "add")
    for value, small in ((terms, terms[::-1]) if terms else ()):
        if isinstance(value, Node) and 0 <= (number(small) or 0.0) <= 1e-8:
            return value
    return node


def _scaled(node: Node) -> tuple[Node, Node] | None:
    """The wave and the alpha of wave / (alpha + 1e-9), however it is divided."""
    terms = _two(node, "div")
    if terms is not None and isinstance(terms[0], Node):
        alpha = _divisor(terms[1])
        return None if alpha is None else (terms[0], alpha)
    terms = _two(node, "mul")
    for wave, factor in ((terms, terms[::-1]) if terms else ()):
        if not isinstance(wave, Node) or not isinstance(factor, Node):
            continue
        if name_of(factor) == "reciprocal":
            alpha = _divisor(first(factor))
        else:
            quotient = _two(factor, "div")
            alpha = _divisor(quotient[1]) if quotient and number(quotient[0]) == 1 else None
        if alpha is not None:
            return wave, alpha
    return None


def _made(node: object, names: tuple[str, ...]) -> bool:
    return isinstance(node, Node) and name_of(node) in names


def snake_to(node: Node) -> tuple[Node, Step] | None:
    """The value to which a node, with nodes that nothing else uses, applies snake; and the step from there."""
    terms = _two(node, "add")
    for source, addend in ((terms, terms[::-1]) if terms else ()):
        if not isinstance(source, Node) or not isinstance(addend, Node):
            continue
        scaled = _scaled(addend)
        if scaled is None:
            continue
        square, alpha = scaled
        sine = _squared(square)
        if not _made(sine, ("sin",)) or writes_in_place(sine):  # type: ignore[arg-type]
            continue
        argument = first(sine)  # type: ignore[arg-type]
        factors = _two(argument, "mul") if isinstance(argument, Node) else None
        tensor = tensor_of(source)
        if factors not in ((source, alpha), (alpha, source)) or tensor is None:
            continue
        through = (argument, sine, square, addend)
        if any(not set(inner.users) <= {*through, node} for inner in through):
            continue
        running = Running(source, each_of(tensor.dim()), tensor.dim())
        values = tensor_of(alpha)
        found = None if values is None else term(running, alpha, values)
        if not isinstance(found, tuple) or found[0] != "channel":
            continue
        _, operand, f32 = found
        return source, Step(node, ("snake(dtype=f32)" if f32 else "snake",), (operand,), through=through)
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
