# SPDX-License-Identifier: Apache-2.0
"""Norms that people write by hand: (x - mean) / sqrt(variance + eps), over channels, space, or both."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from torch.fx import Node

from .names import bind, bind_dims, first, name_of, writes_in_place
from .reductions import axes_text
from .steps import Running, Step
from .values import number, written


def _is(node: Node | None, *names: str) -> bool:
    return node is not None and name_of(node) in names and not writes_in_place(node)


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _other(node: Node, known: Node) -> object:
    """The second term of a product or sum of two."""
    if len(node.args) != 2 or node.kwargs:
        return None
    return node.args[1] if node.args[0] is known else node.args[0]


def _over(running: Running, node: Node, **defaults: object) -> frozenset[int] | None:
    """The axes of (N, C, space...) that a reduction keeps with one element."""
    given = bind_dims(node, "dim", keepdim=False, **defaults) or bind_dims(node, "dim", **defaults, keepdim=False)
    axes = None if given is None or given["keepdim"] is not True else running.axes_of(given["dim"])
    return frozenset(axes) if axes else None


def _correction(node: Node) -> float | None:
    """What is taken from the count that squares are divided by, of var, std and their likes."""
    given = bind_dims(node, "dim", keepdim=False, unbiased=None, correction=None)
    given = given or bind_dims(node, "dim", unbiased=None, keepdim=False, correction=None)
    if given is None:
        return None
    if given["correction"] is not None:
        return number(given["correction"])
    return {None: 1.0, True: 1.0, False: 0.0}.get(given["unbiased"])


@dataclasses.dataclass(frozen=True)
class _Spread:
    """A variance or standard deviation, and where it comes from."""

    node: Node
    is_root: bool
    correction: float
    through: tuple[Node, ...] = ()


def _squares(difference: Node) -> Iterator[Node]:
    for user in difference.users:
        if _is(user, "square") or (_is(user, "pow") and number(user.args[1]) == 2):
            yield user
        elif _is(user, "mul") and tuple(user.args) == (difference, difference):
            yield user


def _part(pair: Node, index: int) -> Node | None:
    """What takes this element of a pair, and is alone in that."""
    users = [user for user in pair.users if _is(user, "getitem") and user.args[1] == index]
    return users[0] if len(users) == 1 else None


def _means(running: Running) -> Iterator[tuple[Node, frozenset[int], _Spread | None]]:
    """The means of the value, over which axes, and the spread that is computed with one."""
    for user in running.node.users:
        if _is(user, "mean", "var_mean", "std_mean") and first(user) is running.node:
            over = _over(running, user) if _is(user, "mean") else _over_pair(running, user)
            if over is None or 0 in over:
                continue
            if _is(user, "mean"):
                yield user, over, None
                continue
            spread, mean, correction = _part(user, 0), _part(user, 1), _correction(user)
            if spread is not None and mean is not None and correction is not None:
                yield mean, over, _Spread(spread, _is(user, "std_mean"), correction, (user,))


def _over_pair(running: Running, node: Node) -> frozenset[int] | None:
    return _over(running, node, unbiased=None, correction=None)


def _spreads(running: Running, over: frozenset[int], differences: list[Node]) -> Iterator[_Spread]:
    """The variances over these axes."""
    for difference in differences:
        for square in _squares(difference):
            mean = _only_user(square)
            if mean is not None and _is(mean, "mean") and _over(running, mean) == over:
                yield _Spread(mean, False, 0.0, (square,))
    for value in (running.node, *differences):
        for user in value.users:
            correction = _correction(user) if _is(user, "var", "std") else None
            if correction is not None and first(user) is value and _over_pair(running, user) == over:
                yield _Spread(user, _is(user, "std"), correction)


@dataclasses.dataclass(frozen=True)
class _Divisor:
    """sqrt(variance + within) + behind, or one through it."""

    node: Node
    is_inverse: bool
    within: float = 0.0
    behind: float = 0.0
    through: tuple[Node, ...] = ()


def _added(node: Node) -> tuple[Node, float]:
    """A node's sum with a number, and the number; itself and 0 where there is none."""
    user = _only_user(node)
    value = number(_other(user, node)) if user is not None and _is(user, "add") else None
    return (node, 0.0) if user is None or value is None else (user, value)


def _divisor(spread: _Spread) -> _Divisor | None:
    shifted, eps = _added(spread.node)
    if spread.is_root:
        return _Divisor(shifted, False, behind=eps, through=(spread.node,))
    root = _only_user(shifted)
    if root is None or not _is(root, "sqrt", "rsqrt", "pow"):
        return None
    power = number(root.args[1]) if name_of(root) == "pow" else {"sqrt": 0.5, "rsqrt": -0.5}[name_of(root)]
    if power == -0.5:
        return _Divisor(root, True, eps, through=(spread.node, shifted))
    if power != 0.5:
        return None
    last, behind = _added(root)
    return _Divisor(last, False, eps, behind, (spread.node, shifted, root))


def _end(divisor: _Divisor, differences: list[Node]) -> Node | None:
    end = _only_user(divisor.node)
    if divisor.is_inverse and _is(end, "mul") and end is not None and _other(end, divisor.node) in differences:
        return end
    if not divisor.is_inverse and _is(end, "div") and end is not None and end.args[1] is divisor.node:
        return end if end.args[0] in differences else None
    return None


def _norm(running: Running, over: frozenset[int], eps: float) -> str | None:
    """The vocabulary's norm over these axes."""
    space = frozenset(range(2, running.rank))
    words = [] if eps == 1e-5 else [f"eps={written(eps)}"]
    if over == {1}:
        return f"layer_norm({', '.join(['channels', *words])})"
    if over == space:
        return f"instance_norm({', '.join(words)})" if words else "instance_norm"
    if over == space | {1}:
        return f"group_norm({', '.join(['1', *words])})"
    return None


def _ops(running: Running, over: frozenset[int], correction: float, divisor: _Divisor) -> tuple[str, ...] | None:
    """The ops of a norm that divides so."""
    count: Any = math.prod(running.sizes[axis] for axis in over)
    rest = 1.0
    if correction != 0:
        if not isinstance(count, int) or count <= correction:
            return None
        rest = (count - correction) / count  # of the variance that PyTorch gives, the biased one is this part
    norm = _norm(running, over, divisor.within * rest) if divisor.behind == 0 and divisor.within > 0 else None
    if norm is not None:
        return (norm, *([f"mul({math.sqrt(rest)!r})"] if rest != 1 else []))
    text = axes_text(running, set(over))
    within = [f"add({written(divisor.within)})"] if divisor.within else []
    behind = [f"add({written(divisor.behind)})"] if divisor.behind else []
    return (
        "keep(@x)", f"mean{text}", "mul(-1)", "add(@x)", "keep(@d)", "pow(2)", f"mean{text}",
        *([f"div({rest!r})"] if rest != 1 else []), *within, "sqrt", *behind, "pow(-1)", "mul(@d)")


def handmade_norm(running: Running) -> Step | None:
    """The step of a norm behind the running value, all of whose uses it takes up."""
    if not running.plain:
        return None
    for mean, over, spread in _means(running):
        differences = [user for user in mean.users if _is(user, "sub") and tuple(user.args) == (running.node, mean)
                       and not user.kwargs]
        for found in [spread] if spread else _spreads(running, over, differences):
            divisor = _divisor(found)
            end = _end(divisor, differences) if divisor is not None else None
            if divisor is None or end is None:
                continue
            through = tuple(dict.fromkeys((mean, *differences, *found.through, *divisor.through, divisor.node)))
            taken = {*through, end}
            # Nothing of it may be used elsewhere.
            if not set(running.node.users) <= taken or any(not set(node.users) <= taken for node in through):
                continue
            ops = _ops(running, over, found.correction, divisor)
            if ops is not None:
                return Step(end, ops, through=through)
    return None
