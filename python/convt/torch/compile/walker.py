# SPDX-License-Identifier: Apache-2.0
"""Walks from a transposed convolution along its result's uses, and takes operations while the vocabulary has them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import Node

from .._kernel import DTYPES, dense_strides
from .aliases import roots, writer_between
from .crops import folded, is_seen_by_none
from .diamonds import diamond
from .names import bind, changes_mode, first, name_of, writes_in_place
from .kept import kept
from .polynomials import polynomial
from .regions import region
from .rounding import is_rounded
from .spellings import SPELLINGS
from .prologue import Prologue
from .steps import NOT_UNDERSTOOD, Operand, Running, Step, each_of
from .values import same, tensor_of

_CONVOLUTIONS = {f"conv_transpose{dims}d": dims for dims in (1, 2, 3)}


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A transposed convolution in a graph."""

    node: Node
    input: Node
    weight: Node
    bias: Node | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    batched: bool = True

    @property
    def dims(self) -> int:
        return len(self.stride)

    @property
    def result(self) -> torch.Tensor:
        tensor = tensor_of(self.node)
        assert tensor is not None
        return tensor


@dataclasses.dataclass(frozen=True)
class Chain:
    """What a walk found: the ops behind a convolution, up to a place in the graph where they may end."""

    ops: tuple[str, ...]
    operands: tuple[Operand, ...]
    running: Running
    taken: tuple[Node, ...]  # nodes that the fused call stands for, the convolution's among them
    layout: str
    padding: tuple[int, ...]  # the convolution's, and what is cut off behind it
    output_padding: tuple[int, ...]

    @property
    def text(self) -> str:
        return " | ".join(self.ops)


@dataclasses.dataclass
class Walk:
    """A walk: the chains it could end with, longest last, and what ended it."""

    convolution: Convolution
    prologue: Prologue
    chains: list[Chain]
    ended_by: str
    reason: str


def is_transposed_convolution(node: Node) -> bool:
    name = name_of(node)
    if name == "convolution":
        given = bind(node, "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
        return given is not None and given["transposed"] is True
    return name in _CONVOLUTIONS


def _axes(value: Any, dims: int) -> tuple[int, ...] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * dims
    if isinstance(value, (tuple, list)) and all(isinstance(size, int) for size in value):
        return tuple(value) * dims if len(value) == 1 else tuple(value) if len(value) == dims else None
    return None


def convolution_of(node: Node) -> Convolution | str:
    """A node's convolution, or why it is none that can be taken."""
    name = name_of(node)
    given = (
        bind(node, "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
        if name == "convolution"
        else bind(node, "weight", bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)
    )
    result = tensor_of(node)
    if given is None or result is None:
        return "its arguments are not understood"
    input, weight, bias = first(node), given["weight"], given["bias"]
    given_input, given_weight = tensor_of(input), tensor_of(weight)
    if given_input is None or given_weight is None or (bias is not None and tensor_of(bias) is None):
        return "its arguments are not understood"
    dims = given_weight.dim() - 2
    batched = given_input.dim() == dims + 2
    if given_input.dim() != result.dim() or not (batched or given_input.dim() == dims + 1) or dims not in (1, 2, 3):
        return "its arguments are not understood"
    if result.dtype not in DTYPES:
        return f"no transposed convolution of {result.dtype}"
    if result.device.type not in ("cpu", "cuda"):
        return f"no transposed convolution on {result.device.type}"
    if any(type(tensor_of(value)).__name__ in ("DTensor", "SparseTensor") for value in (input, weight)):
        return "a tensor of another kind"
    fields = [_axes(given[key], dims) for key in ("stride", "padding", "output_padding", "dilation")]
    if None in fields or not isinstance(given["groups"], int):
        return "a parameter is no constant"
    stride, padding, output_padding, dilation = (field or () for field in fields)
    return Convolution(
        node, input, weight, bias, stride, padding, output_padding, dilation, given["groups"], batched)


def _stride(axes: tuple[int, ...], sizes: list[Any], strides: list[int]) -> Any:
    """The stride of axes that were flattened to one: the last one's that has more than one element."""
    return strides[next((axis for axis in reversed(axes) if not same(sizes[axis], 1)), axes[-1])]


def layout_of(running: Running) -> str | None:
    """The layout in which the value lies, as (N, C, space...); None where it is neither of the two."""
    strides = running.tensor.stride()
    sizes = running.sizes
    for layout in ("channels_first", "channels_last"):
        wanted = dense_strides(sizes, layout == "channels_last")
        if all(
            all(same(sizes[axis], 1) for axis in axes) or same(strides[position], _stride(axes, sizes, wanted))
            for position, axes in enumerate(running.axes)
        ):
            return layout
    return None


def _point_later_uses_at(node: Node, value: Node) -> None:
    """After an operation in place, its argument and its result are one: later uses take the result."""
    later = False
    for other in node.graph.nodes:
        if later and value in other.all_input_nodes:
            other.replace_input_with(value, node)
        later = later or other is node


def _is_before(node: Node, other: Node) -> bool:
    while node.op != "root":
        node = node.next
        if node is other:
            return True
    return False


def settle_writes_before(convolution: Node) -> None:
    """Lets a convolution take the result of what wrote into its input: h.relu_(); up(h)."""
    settled = False
    while not settled:
        settled = True
        input = first(convolution)
        for user in list(input.users) if isinstance(input, Node) else ():
            if (
                writes_in_place(user) and first(user) is input and name_of(user) in SPELLINGS
                and user is not convolution and _is_before(user, convolution)
            ):
                _point_later_uses_at(user, input)
                settled = False
                break


def _next(running: Running) -> Step | str:
    """The step behind the running value, or why there is none."""
    users = list(running.node.users)
    for user in users:
        if writes_in_place(user) and first(user) is running.node and name_of(user) in SPELLINGS:
            _point_later_uses_at(user, running.node)
            users = list(running.node.users)
            break
    if len(users) > 1:
        return diamond(running) or f"its result is used {len(users)} times"
    if not users:
        return "its result is not used"
    user = users[0]
    if user.op == "output":
        return "it is a result of the graph"
    spelling = SPELLINGS.get(name_of(user))
    if spelling is None:
        return "the vocabulary has no such operation"
    if user.kwargs.get("out") is not None:
        return "it writes into a given tensor"
    step = spelling(running, user)
    return (region(running) or step) if isinstance(step, str) else step


def _described(node: Node) -> str:
    return name_of(node) or str(getattr(node.target, "__name__", node.target))


def _mode_changes(start: Node, end: Node) -> bool:
    """Whether nodes from one to another run in different modes, or may."""
    node = start
    while node is not end and node.op != "root":
        if changes_mode(node):
            return True
        node = node.next
    return False


def moved_over(walk: Walk, operands: tuple[Operand, ...], end: Node, through: set[Node]) -> str | None:
    """Why a call at `end` may not read what the graph reads on the way there; None where nothing is written meanwhile.

    For gradients the call keeps what it reads to the end.
    """
    convolution, prologue = walk.convolution, walk.prologue
    read = [value for value in (prologue.input, convolution.weight, convolution.bias) if value is not None]
    read += [node for operand in (*prologue.operands, *operands) for node in (operand.node, *operand.others)]
    memory = set().union(*map(roots, read))
    start = next(node for node in convolution.node.graph.nodes if node in through)
    if _mode_changes(start, end):
        return "gradients or autocast are switched in between"
    last = None if convolution.result.requires_grad else end
    writer = writer_between(start, last, through, memory)
    return None if writer is None else f"{_described(writer)} may write into a tensor that is read"


def walk(convolution: Convolution, prologue: Prologue) -> Walk | str:
    """The walk from a transposed convolution with its prologue, or why it is left."""
    node, result = convolution.node, convolution.result
    rank = convolution.dims + 2
    running = Running(node, each_of(rank)[0 if convolution.batched else 1 :], rank, given_dtype=result.dtype)
    widened: Node | None = None  # the first of the last operations whose results are float32 beside 16-bit floats
    padding, output_padding = convolution.padding, convolution.output_padding
    most = tuple(map(max, convolution.stride, convolution.dilation))
    layout: str | None = None
    cropped = False
    ops: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    if convolution.bias is not None:
        bias = tensor_of(convolution.bias)
        assert bias is not None
        # Under autocast PyTorch rounds a float32 bias to the result's type; convt may take it as it is.
        if bias.dtype not in (result.dtype, torch.float32):
            return "its bias is of another type"
        ops = ("bias" if bias.dtype == result.dtype else "bias(dtype=f32)",)
        operands = (Operand(convolution.bias),)
    taken: tuple[Node, ...] = (*prologue.taken, node)
    walked = Walk(convolution, prologue, [], "", "")
    if prologue.taken:
        reason = moved_over(walked, operands, node, set(taken))
        if reason is not None:
            return reason
    while True:
        lies_so = layout_of(running)
        if lies_so is not None or not (cropped and is_seen_by_none(running.node)):
            layout = lies_so
        if running.tensor.dtype == result.dtype or is_rounded(running.node, result.dtype):
            widened = None
        if layout is not None and widened is None:
            walked.chains.append(Chain(ops, operands, running, taken, layout, padding, output_padding))
        step = _next(running)
        if isinstance(step, str) and running.node is node:
            step = polynomial(running, convolution.bias) or step
        if isinstance(step, str):
            step = kept(running) or step
        if isinstance(step, str):
            users = list(running.node.users)
            walked.ended_by, walked.reason = _described(users[0]) if len(users) == 1 else "", step
            if widened is not None:
                walked.ended_by, walked.reason = _described(widened), f"the result is of another type; later: {step}"
            return walked
        after = tensor_of(step.last)
        if after is not None and after.dim() != len(running.after(step).axes):
            walked.ended_by, walked.reason = _described(step.last), NOT_UNDERSTOOD
            return walked
        if after is None or not running.may_be(after):
            walked.ended_by, walked.reason = _described(step.last), "the result is of another type"
            return walked
        if after.dtype != result.dtype and widened is None:
            widened = step.last
        operands = step.operands if step.instead else (*operands, *step.operands)
        reason = moved_over(walked, operands, step.last, {*taken, *step.through, step.last})
        if reason is not None:
            walked.ended_by, walked.reason = _described(step.last), reason
            return walked
        cropped = step.crop is not None
        if step.crop is not None:
            paddings = folded(step.crop, ops, padding, output_padding, most)
            if isinstance(paddings, str):
                walked.ended_by, walked.reason = _described(step.last), paddings
                return walked
            padding, output_padding = paddings
        running = running.after(step)
        ops = step.ops if step.instead else (*ops, *step.named(ops))
        taken += (*step.through, step.last)


def best(walk: Walk, accepts: Any) -> Chain | None:
    """The longest chain that a rule accepts; of those with the same ops, one whose axes are (N, C, space...)."""
    for count in sorted({len(chain.ops) for chain in walk.chains}, reverse=True):
        same_ops = [chain for chain in walk.chains if len(chain.ops) == count]
        if accepts(same_ops[0]):
            plain = [chain for chain in same_ops if chain.running.plain]
            return plain[-1] if plain else same_ops[0]
    return None
