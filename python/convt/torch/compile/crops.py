# SPDX-License-Identifier: Apache-2.0
"""Parts of the value that are cut off at its borders, as causal vocoders and FCNs do: they need never be computed.

The convolution pads more instead. That is exact where the ops before see one element at a time.
"""

from __future__ import annotations

import operator
from typing import Any

from torch.fx import Node

from .names import bind, name_of
from .steps import NOT_UNDERSTOOD, Crop, Running, Step
from .values import Size, same, tensor_of, value_of
from .vocabulary import is_pointwise

_PART = "takes a part of the value"


def _constant(size: Size) -> int | None:
    """A size that is the same in every call."""
    if isinstance(size, int):
        return size
    expression = getattr(getattr(size, "node", None), "expr", None)
    return int(expression) if expression is not None and expression.is_Integer else None


def _given(value: Any) -> Any:
    return value_of(value) if isinstance(value, Node) else value


def _start(value: Any, size: Size) -> int | None:
    """Where a slice begins."""
    value = 0 if value is None else _given(value)
    start = None if value is None else _constant(value)
    if start is None or start >= 0:
        return start
    return _constant(size + start)


def _step(running: Running, node: Node, starts: dict[int, int]) -> Step | str:
    """The step of a crop that begins so along some of the node's axes."""
    result = tensor_of(node)
    if result is None or result.dim() != len(running.axes):
        return NOT_UNDERSTOOD
    crop: list[tuple[int, int]] = [(0, 0)] * (running.rank - 2)
    for place, axes in enumerate(running.axes):
        before, after = running.tensor.shape[place], result.shape[place]
        start = starts.get(place, 0)
        if start == 0 and same(before, after):
            continue
        end = _constant(before - start - after)
        if len(axes) != 1 or axes[0] < 2 or end is None or end < 0 or same(after, 0):
            return _PART
        crop[axes[0] - 2] = (start, end)
    return Step(node, crop=tuple(crop) if any(map(any, crop)) else None)


def part(running: Running, node: Node, index: tuple[Any, ...]) -> Step | str:
    """The step of x[:, :, 1:-1], whose index has slices and nothing else."""
    whole = len(running.axes) - sum(part is not Ellipsis for part in index)
    starts: dict[int, int] = {}
    place = 0
    for one in index:
        if one is Ellipsis:
            place += whole
            continue
        if not isinstance(one, slice) or one.step not in (None, 1):
            return _PART
        start = _start(one.start, running.tensor.shape[place])
        if start is None:
            return _PART
        starts[place] = start
        place += 1
    return _step(running, node, starts)


def _narrow(running: Running, node: Node) -> Step | str:
    given = bind(node, "dim", "start", "length")
    if given is None or not isinstance(given["dim"], int):
        return NOT_UNDERSTOOD
    place = given["dim"] % len(running.axes)
    start = _start(given["start"], running.tensor.shape[place])
    return _PART if start is None else _step(running, node, {place: start})


def negative_pad(running: Running, node: Node, sizes: list[int]) -> Step | str:
    """The step of F.pad where it pads nothing and may cut off."""
    count = len(running.axes)
    return _step(running, node, {count - 1 - i: -sizes[2 * i] for i in range(len(sizes) // 2)})


def folded(
    crop: Crop, ops: tuple[str, ...], padding: tuple[int, ...], output_padding: tuple[int, ...], most: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | str:
    """The paddings of the convolution that makes no more than what is left; `most` is what output paddings stay below."""
    if not all(op.startswith("bias") or is_pointwise(op) for op in ops):
        return "takes a part of a value whose ops see more than one element"
    more = tuple(map(operator.add, padding, (start for start, _ in crop)))
    outputs = tuple(own + start - end for own, (start, end) in zip(output_padding, crop))
    if not all(0 <= size < limit for size, limit in zip(outputs, most)):
        return "cuts off more at the end than at the beginning, or much less"
    return more, outputs


CROPS = {"narrow": _narrow}

#: Operations that do not see how their argument lies in memory.
TAKE_ANY_STRIDES = frozenset((
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cat", "concat", "concatenate"))


def is_seen_by_none(node: Node) -> bool:
    """Whether nothing that uses a value shows how it lies in memory."""
    return bool(node.users) and all(name_of(user) in TAKE_ANY_STRIDES for user in node.users)
