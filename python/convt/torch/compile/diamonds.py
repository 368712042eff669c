# SPDX-License-Identifier: Apache-2.0
"""A norm over channels that people write by hand, in which the running value is used more than once."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import Node

from .names import bind, bind_dims, name_of, writes_in_place
from .regions import region
from .snakes import snake
from .steps import Running, Step
from .values import number, written


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _is(node: Node | None, name: str) -> bool:
    return node is not None and name_of(node) == name and not writes_in_place(node)


def _other(node: Node, known: Node) -> object:
    """The second term of a product or sum of two."""
    if len(node.args) != 2 or node.kwargs:
        return None
    return node.args[1] if node.args[0] is known else node.args[0]


# ---- (x - mean) / sqrt(variance + eps), over channels


def _over_channels(running: Running, node: Node, **defaults: object) -> bool:
    given = bind_dims(node, "dim", keepdim=False, **defaults) or bind_dims(node, "dim", **defaults, keepdim=False)
    return given is not None and running.axes_of(given["dim"]) == {1} and given["keepdim"] is True


def _squares(difference: Node) -> Iterator[Node]:
    for user in difference.users:
        if name_of(user) == "square" or (name_of(user) == "pow" and number(user.args[1]) == 2):
            yield user
        elif name_of(user) == "mul" and tuple(user.args) == (difference, difference):
            yield user


def _variance(running: Running, differences: list[Node]) -> tuple[Node, list[Node]] | None:
    """The node of the variance over channels, with nodes on the way to it."""
    for difference in differences:
        for square in _squares(difference):
            mean = _only_user(square)
            if mean is not None and _is(mean, "mean") and _over_channels(running, mean):
                return mean, [square]
    for user in running.node.users:
        if _is(user, "var"):
            biased = user.kwargs.get("unbiased") is False or user.kwargs.get("correction") == 0
            given = bind_dims(user, "dim", keepdim=False, unbiased=True, correction=1)
            if biased and given is not None and running.axes_of(given["dim"]) == {1} and given["keepdim"] is True:
                return user, []
    return None


def _channel_norm(running: Running) -> Step | None:
    means = [user for user in running.node.users if _is(user, "mean") and _over_channels(running, user)]
    if len(means) != 1 or not running.plain:
        return None
    mean = means[0]
    differences = [
        user for user in running.node.users if _is(user, "sub") and tuple(user.args) == (running.node, mean)
        and not user.kwargs
    ]
    found = _variance(running, differences)
    if not differences or found is None:
        return None
    variance, on_the_way = found
    shifted = _only_user(variance)
    if shifted is None or not _is(shifted, "add"):
        return None
    eps = number(_other(shifted, variance))
    root = _only_user(shifted)
    if eps is None or root is None or name_of(root) not in ("sqrt", "rsqrt", "pow"):
        return None
    power = number(root.args[1]) if name_of(root) == "pow" else {"sqrt": 0.5, "rsqrt": -0.5}[name_of(root)]
    end = _only_user(root)
    if end is None or writes_in_place(root):
        return None
    divides = power == 0.5 and _is(end, "div") and end.args[1] is root and end.args[0] in differences
    multiplies = power == -0.5 and _is(end, "mul") and _other(end, root) in differences
    if not (divides or multiplies):
        return None
    through = [mean, *differences, *on_the_way, variance, shifted, root]
    taken = {*through, end}
    # Nothing of it may be used elsewhere.
    if not set(running.node.users) <= taken or any(not set(node.users) <= taken for node in through):
        return None
    words = "channels" if eps == 1e-5 else f"channels, eps={written(eps)}"
    return Step(end, (f"layer_norm({words})",), through=tuple(dict.fromkeys(through)))


def diamond(running: Running) -> Step | None:
    """The step of what is written so, or of an activation that is; None where there is none."""
    return region(running) or _channel_norm(running) or snake(running)
