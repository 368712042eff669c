# SPDX-License-Identifier: Apache-2.0
"""A walk's position in the graph, and one step of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from .values import Size, same, tensor_of


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor for the chain: a node's, or one that is made of it where the fused call is put."""

    node: Node
    make: Callable[[Graph, Node], Node] | None = None
    others: tuple[Node, ...] = ()  # nodes that `make` reads besides


Axes = tuple[tuple[int, ...], ...]  # for each of a node's axes those of (N, C, space...) that it is, in their order


def each_of(rank: int) -> Axes:
    """The axes of a value that lies as (N, C, space...)."""
    return tuple((axis,) for axis in range(rank))


@dataclasses.dataclass(frozen=True)
class Running:
    """The running value: its node, and which axes of (N, C, space...) the node's own axes are.

    Axes that are missing there were reduced to one element and dropped. An axis of the node that is several was flattened.
    """

    node: Node
    axes: Axes
    rank: int  # of the convolution's result
    parts: tuple[Size, ...] = ()  # sizes of (N, C, space...) when axes were flattened
    given_dtype: torch.dtype | None = None  # the call's, where the value's own may be float32 meanwhile

    @property
    def tensor(self) -> torch.Tensor:
        tensor = tensor_of(self.node)
        assert tensor is not None
        return tensor

    @property
    def dtype(self) -> torch.dtype:
        """The type of the call's tensors."""
        return self.given_dtype or self.tensor.dtype

    def may_be(self, tensor: torch.Tensor) -> bool:
        """Whether a value of the chain may be such a tensor: of the call's type, or of float32 where that has 16 bits.

        Chains compute 16-bit floats in float32, and round at the end.
        """
        wide = self.dtype.itemsize == 2 and tensor.dtype == torch.float32
        return (tensor.dtype == self.dtype or wide) and tensor.device == self.tensor.device

    @property
    def plain(self) -> bool:
        """Whether the node's axes are (N, C, space...)."""
        return self.axes == each_of(self.rank)

    @property
    def batch_first(self) -> bool:
        """Whether they begin with (N, C)."""
        return self.axes[:2] == ((0,), (1,))

    @property
    def sizes(self) -> list[Size]:
        """Of (N, C, space...)."""
        sizes: list[Size] = [1] * self.rank
        for size, axes in zip(self.tensor.shape, self.axes):
            for axis in axes:
                sizes[axis] = size if len(axes) == 1 or same(size, 1) else self.parts[axis]
        return sizes

    @property
    def channels(self) -> Size:
        return self.sizes[1]

    @property
    def space(self) -> list[Size]:
        return self.sizes[2:]

    def axes_of(self, dims: Any) -> set[int] | None:
        """Which of (N, C, space...) some of the node's axes are; None where one is no constant or there is none."""
        if isinstance(dims, int) and not isinstance(dims, bool):
            dims = (dims,)
        if not isinstance(dims, (tuple, list)) or not all(isinstance(dim, int) for dim in dims):
            return None
        if not all(-len(self.axes) <= dim < len(self.axes) for dim in dims):
            return None
        return {axis for dim in dims for axis in self.axes[dim]}

    def without(self, axes: set[int]) -> Axes:
        """The node's axes but for those that are some of (N, C, space...)."""
        return tuple(own for own in self.axes if not set(own) <= axes)

    def after(self, step: Step) -> Running:
        """The running value behind a step."""
        axes = self.axes if step.axes is None else step.axes
        return Running(step.last, axes, self.rank, tuple(self.sizes), self.given_dtype)


Crop = tuple[tuple[int, int], ...]  # elements that are cut off at the beginning and the end of each axis of space

_KEPT = re.compile(r"@\w+")


@dataclasses.dataclass(frozen=True)
class Step:
    """What a node, or several, do to the running value."""

    last: Node  # whose result is the running value afterwards
    ops: tuple[str, ...] = ()  # in text form; words that begin with @ stand for names of kept values
    operands: tuple[Operand, ...] = ()
    axes: Axes | None = None  # afterwards; None: as before
    through: tuple[Node, ...] = ()  # nodes besides `last` that the step takes up
    crop: Crop | None = None
    instead: bool = False  # its ops take the place of the convolution's own bias

    def named(self, ops: tuple[str, ...]) -> tuple[str, ...]:
        """Its ops, with names for the values that it keeps which no op before them has."""
        used = sum(op.startswith("keep(") for op in ops)
        words = dict.fromkeys(word for op in self.ops for word in _KEPT.findall(op))
        names = {word: f"v{used + index}" for index, word in enumerate(words)}
        return tuple(_KEPT.sub(lambda found: names[found[0]], op) for op in self.ops)


#: What an operation of PyTorch's is in the vocabulary: the step from the running value along a node, or why there is none.
Spelling = Callable[[Running, Node], "Step | str"]
NOT_UNDERSTOOD = "its arguments are not understood"
