# SPDX-License-Identifier: Apache-2.0
"""Views: other orders of the axes, axes that are flattened, dropped and put back; and what changes nothing."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from .crops import CROPS, part as part_of
from .names import MISSING, bind, bind_dims
from .steps import NOT_UNDERSTOOD, Axes, Running, Spelling, Step
from .values import Size, same, tensor_of


def _permute(running: Running, node: Node) -> Step | str:
    given = bind_dims(node, "dims")
    dims = given["dims"] if given else None
    if not isinstance(dims, (tuple, list)) or not all(isinstance(dim, int) for dim in dims):
        return NOT_UNDERSTOOD
    return Step(node, axes=tuple(running.axes[dim] for dim in dims))


def _transpose(running: Running, node: Node) -> Step | str:
    given = bind(node, "dim0", "dim1")
    if given is None or not all(isinstance(dim, int) for dim in given.values()):
        return NOT_UNDERSTOOD
    axes = list(running.axes)
    a, b = given["dim0"], given["dim1"]
    axes[a], axes[b] = axes[b], axes[a]
    return Step(node, axes=tuple(axes))


def _movedim(running: Running, node: Node) -> Step | str:
    given = bind(node, "source", "destination")
    if given is None or not all(isinstance(dim, int) for dim in given.values()):
        return "moves several axes"
    axes = list(running.axes)
    moved = axes.pop(given["source"])
    axes.insert(given["destination"] % len(running.axes), moved)
    return Step(node, axes=tuple(axes))


def _squeeze(running: Running, node: Node) -> Step | str:
    given = bind_dims(node, "dim")
    if given is None:
        return NOT_UNDERSTOOD
    if given["dim"] is MISSING:
        if not all(isinstance(size, int) for size in running.sizes):
            return "drops axes by their sizes, which may change"
        axes: set[int] | None = {axis for axis, size in enumerate(running.sizes) if size == 1}
    else:
        axes = running.axes_of(given["dim"])
    if axes is None or not all(same(running.sizes[axis], 1) for axis in axes):
        return "drops an axis that may have more than one element"
    return Step(node, axes=running.without(axes))


def _put_back(running: Running, axes: Axes, position: int) -> Axes | None:
    """The axes with one that was dropped, at a position: if possible the one that belongs there."""
    present = {axis for own in axes for axis in own}
    dropped = [axis for axis in range(running.rank) if axis not in present]
    before = max((axis for own in axes[:position] for axis in own), default=-1)
    fitting = [axis for axis in dropped if axis > before] or dropped
    return (*axes[:position], (fitting[0],), *axes[position:]) if fitting else None


def _unsqueeze(running: Running, node: Node) -> Step | str:
    given = bind(node, "dim")
    count = len(running.axes) + 1
    if given is None or not isinstance(given["dim"], int) or not -count <= given["dim"] < count:
        return NOT_UNDERSTOOD
    axes = _put_back(running, running.axes, given["dim"] % count)
    return "adds an axis" if axes is None else Step(node, axes=axes)


def _getitem(running: Running, node: Node) -> Step | str:
    """x[:, :, None, None] puts axes back."""
    given = bind(node, "index")
    index = given["index"] if given else None
    index = index if isinstance(index, tuple) else (index,)
    if any(part is not None and part is not Ellipsis and part != slice(None) for part in index):
        return part_of(running, node, index)
    whole = len(running.axes) - sum(part is not None and part is not Ellipsis for part in index)
    axes: Axes | None = running.axes
    position = 0
    for part in index:
        if part is None and axes is not None:
            axes = _put_back(running, axes, position)
        position += whole if part is Ellipsis else 1
    return "adds an axis" if axes is None else Step(node, axes=axes)


def _split(running: Running, shape: Any) -> Axes | None:
    """The axes of a view of this shape: neighbours flattened, flattened ones apart again, axes of one element anywhere."""
    sizes = running.sizes
    waiting = [axis for own in running.axes for axis in own if not same(sizes[axis], 1)]
    ones = [axis for axis in range(running.rank) if same(sizes[axis], 1)]
    axes: list[tuple[int, ...]] = []
    for size in shape:
        if same(size, 1):
            before = max((axis for own in axes for axis in own), default=-1)
            fitting = [axis for axis in ones if axis > before and not (waiting and axis > waiting[0])] or ones
            if not fitting:
                return None
            axes.append((fitting[0],))
            ones.remove(fitting[0])
            continue
        own: list[int] = []
        product: Size = 1
        while waiting and not same(product, size):
            product = product * sizes[waiting[0]]
            own.append(waiting.pop(0))
        if not own or not same(product, size):
            return None
        axes.append(tuple(own))
    return None if waiting else tuple(axes)


def _reshape(running: Running, node: Node) -> Step | str:
    result = tensor_of(node)
    axes = None if result is None else _split(running, result.shape)
    return "a view that takes axes apart, or joins others than neighbours" if axes is None else Step(node, axes=axes)


def _nothing(running: Running, node: Node) -> Step | str:
    """Copies, and conversions to types that the value may have: only where the result lies in memory may differ."""
    result = tensor_of(node)
    if result is None or not running.may_be(result):
        return "converts the value"
    return Step(node)


def _detach(running: Running, node: Node) -> Step | str:
    return "stops gradients" if running.tensor.requires_grad else Step(node)


VIEWS: dict[str, Spelling] = {
    "permute": _permute,
    "transpose": _transpose,
    "movedim": _movedim,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "getitem": _getitem,
    **{name: _reshape for name in ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")},
    **{name: _nothing for name in ("contiguous", "clone", "to", "float", "half", "bfloat16", "double", "type_as", "alias")},
    "detach": _detach,
    **CROPS,
}
