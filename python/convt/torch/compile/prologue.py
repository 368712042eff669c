# SPDX-License-Identifier: Apache-2.0
"""Walks from a transposed convolution's input backwards, and takes operations that a prologue may have."""

from __future__ import annotations

import dataclasses

import torch
from torch.fx import Node

from .aliases import roots
from .names import name_of, writes_in_place
from .regions import region_to
from .snakes import snake_to
from .spellings import SPELLINGS
from .steps import Operand, Running, Step, each_of
from .values import same_shape, tensor_of
from .vocabulary import is_pointwise


@dataclasses.dataclass(frozen=True)
class Prologue:
    """Operations before a convolution, and the value they start from."""

    input: Node
    ops: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    taken: tuple[Node, ...] = ()  # in the graph's order
    ended_by: str = ""  # the operation before the first
    reason: str = ""  # why that was not taken

    @property
    def text(self) -> str:
        return " | ".join(self.ops)


def _is_alike(node: Node, tensor: torch.Tensor) -> bool:
    """Whether a node's tensor has another one's shape, type and device."""
    own = tensor_of(node)
    return (
        own is not None and own.dtype == tensor.dtype and own.device == tensor.device
        and same_shape(own.shape, tensor.shape))


# Operations whose result is never a view.
_FRESH = frozenset("""
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution linear matmul bmm addmm cat concat
    concatenate stack interpolate batch_norm instance_norm group_norm layer_norm rms_norm add sub rsub mul div neg clone relu
    leaky_relu elu gelu silu sigmoid tanh hardtanh hardswish hardsigmoid mish softplus softsign prelu softmax log_softmax exp
    log sqrt pow square max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
""".split())


def _may_vanish(node: Node, source: Node) -> bool:
    """Whether nobody sees what a node writes in place: nothing else has its memory."""
    if not writes_in_place(node):
        return True
    own = isinstance(source.target, torch._ops.OpOverload) and source.target.namespace == "convt"
    return (own or name_of(source) in _FRESH) and len(source.users) == 1 and roots(source) == {source}


def _step_from(source: Node, node: Node, tensor: torch.Tensor) -> Step | None:
    """The step of a single operation from one of its arguments."""
    spelling = SPELLINGS.get(name_of(node))
    if spelling is None or node.kwargs.get("out") is not None or not _may_vanish(node, source):
        return None
    axes = each_of(tensor.dim())
    step = spelling(Running(source, axes, tensor.dim()), node)
    return step if isinstance(step, Step) and step.last is node and step.axes in (None, axes) and not step.crop else None


def _before(node: Node, tensor: torch.Tensor) -> tuple[Node, Step] | None:
    """The step that ends at a node, and the value from which it goes."""
    for source in dict.fromkeys(node.all_input_nodes):
        if _is_alike(source, tensor):
            step = _step_from(source, node, tensor)
            if step is not None and all(map(is_pointwise, step.ops)):
                return source, step
    for found in (snake_to(node), region_to(node)):
        if found is not None and _is_alike(found[0], tensor) and all(map(is_pointwise, found[1].ops)):
            return found
    return None


def _why_not(node: Node, tensor: torch.Tensor) -> str:
    """Why an operation is not taken before the convolution."""
    spelling = SPELLINGS.get(name_of(node))
    if spelling is None:
        return "the vocabulary has no such operation"
    for source in dict.fromkeys(node.all_input_nodes):
        if _is_alike(source, tensor):
            if not _may_vanish(node, source):
                return "it writes into a tensor that others may see"
            step = spelling(Running(source, each_of(tensor.dim()), tensor.dim()), node)
            return step if isinstance(step, str) else "it sees more than one element and numbers of its channel"
    return "its shape or type changes there"


def _end(found: Prologue, convolution: Node) -> tuple[str, str] | None:
    """What ends a prologue before any operation was looked at, and why."""
    node = found.input
    if node.op not in ("call_function", "call_method"):
        return "", "it is given to the graph"
    if not set(node.users) <= {convolution, *found.taken}:
        return name_of(node), f"its result is used {len(node.users)} times"
    return None


def prologue_of(convolution: Node, input: Node) -> Prologue:
    """The longest prologue of a convolution with that input.

    Where autocast rounds the input, nothing is taken: eager PyTorch computes what stands before in float32.
    """
    found = Prologue(input)
    tensor, result = tensor_of(input), tensor_of(convolution)
    if tensor is None or result is None or tensor.dtype != result.dtype:
        return dataclasses.replace(found, reason="it is rounded to another type")
    while True:
        end = _end(found, convolution)
        step = None if end else _before(found.input, tensor)
        if step is None:
            ended_by, reason = end or (name_of(found.input), _why_not(found.input, tensor))
            return dataclasses.replace(found, ended_by=ended_by, reason=reason)
        source, taken = step
        found = Prologue(
            source, (*taken.ops, *found.ops), (*taken.operands, *found.operands),
            (*taken.through, taken.last, *found.taken))
