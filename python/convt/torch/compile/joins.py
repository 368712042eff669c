# SPDX-License-Identifier: Apache-2.0
"""Concatenations along channels, as decoders make with their skips: the convolution writes its part where it belongs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from torch.fx import Node

from .names import bind, first, name_of
from .regions import POINTWISE
from .rounding import is_rounded_at_once
from .steps import Running
from .terms import is_open_under_autocast
from .values import hint, tensor_of
from .walker import Chain, Walk, layout_of, moved_over


@dataclasses.dataclass(frozen=True)
class Join:
    """A concatenation along channels that alone takes a chain's result."""

    node: Node
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    layout: str


def join_of(walked: Walk, chain: Chain) -> Join | None:
    """The concatenation behind a chain, where the convolution may write its part of it."""
    running = chain.running
    users = list(running.node.users)
    if len(users) != 1 or name_of(users[0]) not in ("cat", "concat", "concatenate") or not running.plain:
        return None
    (node,) = users
    given = bind(node, dim=0)
    parts = first(node) if node.args else node.kwargs.get("tensors")
    tensor = tensor_of(node)
    if given is None or tensor is None or not isinstance(parts, (tuple, list)) or node.kwargs.get("out") is not None:
        return None
    if running.axes_of(given["dim"]) != {1} or parts.count(running.node) != 1:
        return None
    at = parts.index(running.node)
    others = (*parts[:at], *parts[at + 1 :])
    if not others or not all(_is_joined(running, other) for other in others):
        return None
    if tensor.dtype != running.dtype and not is_rounded_at_once(node, running.dtype):
        return None
    if _bytes_made_apart(others) > _bytes(running.node):
        return None
    layout = layout_of(Running(node, running.axes, running.rank))
    through = {*chain.taken, node}
    if layout is None or moved_over(walked, chain.operands, node, through) is not None:
        return None
    return Join(node, tuple(parts[:at]), tuple(parts[at + 1 :]), layout)


def _is_joined(running: Running, other: Any) -> bool:
    """Whether a tensor may stand beside the running value: its type is known before it runs, and may be the value's."""
    tensor = tensor_of(other)
    if tensor is None or not running.may_be(tensor):
        return False
    if tensor.dim() != running.rank:  # torch.cat passes over tensors of one axis without elements
        return False
    return not is_open_under_autocast(other, tensor)


def _bytes(node: Node) -> int:
    tensor = tensor_of(node)
    return 0 if tensor is None else math.prod(map(hint, tensor.shape)) * tensor.dtype.itemsize


def _bytes_made_apart(others: tuple[Node, ...]) -> int:
    """Bytes of the tensors that Inductor would compute in their place: pointwise, and not used elsewhere."""
    return sum(_bytes(other) for other in others if len(other.users) == 1 and name_of(other) in POINTWISE)
