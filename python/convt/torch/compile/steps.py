# SPDX-License-Identifier: Apache-2.0
"""A walk's position in the graph, and one step of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from .values import Size, tensor_of


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor for the chain: a node's, or one that is made of it where the fused call is put."""

    node: Node
    make: Callable[[Graph, Node], Node] | None = None


@dataclasses.dataclass(frozen=True)
class Running:
    """The running value: its node, and which axes of (N, C, space...) the node's own axes are, in their order.

    Axes that are missing there were reduced to one element and dropped.
    """

    node: Node
    axes: tuple[int, ...]
    rank: int  # of the convolution's result

    @property
    def tensor(self) -> torch.Tensor:
        tensor = tensor_of(self.node)
        assert tensor is not None
        return tensor

    @property
    def plain(self) -> bool:
        """Whether the node's axes are (N, C, space...)."""
        return self.axes == tuple(range(self.rank))

    @property
    def sizes(self) -> list[Size]:
        """Of (N, C, space...)."""
        shape = self.tensor.shape
        return [shape[self.axes.index(axis)] if axis in self.axes else 1 for axis in range(self.rank)]

    @property
    def channels(self) -> Size:
        return self.sizes[1]

    @property
    def space(self) -> list[Size]:
        return self.sizes[2:]

    def axis(self, dim: int) -> int | None:
        """Which of (N, C, space...) a node's axis is; None for one that there is not."""
        if not -len(self.axes) <= dim < len(self.axes):
            return None
        return self.axes[dim]

    def axes_of(self, dims: Any) -> set[int] | None:
        """The same of several; None where one of them is no constant or there is none."""
        if isinstance(dims, int) and not isinstance(dims, bool):
            dims = (dims,)
        if not isinstance(dims, (tuple, list)) or not all(isinstance(dim, int) for dim in dims):
            return None
        found = [self.axis(dim) for dim in dims]
        return None if None in found else {axis for axis in found if axis is not None}


@dataclasses.dataclass(frozen=True)
class Step:
    """What a node, or several, do to the running value."""

    last: Node  # whose result is the running value afterwards
    ops: tuple[str, ...] = ()  # in text form
    operands: tuple[Operand, ...] = ()
    axes: tuple[int, ...] | None = None  # afterwards; None: as before
    through: tuple[Node, ...] = ()  # nodes besides `last` that the step takes up
