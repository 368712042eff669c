# SPDX-License-Identifier: Apache-2.0
"""The pass over a captured graph: every transposed convolution with its chain becomes one call of convt's operator."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator

import torch
from torch.fx import Graph, GraphModule, Node

from .. import _cat, _chain, _op, _precision
from .joins import Join, join_of
from .names import differentiates
from .options import Options
from .prologue import Prologue, prologue_of
from .rounding import is_rounded_at_once
from .rules import Decision, decide, decide_prologue
from .values import tensor_of
from .walker import (
    Chain, Convolution, Walk, best, convolution_of, is_transposed_convolution, settle_writes_before, walk)

log = logging.getLogger("convt.torch")


@dataclasses.dataclass
class Found:
    """A transposed convolution of a model, and what became of it."""

    convolution: str  #: its name in the graph
    where: str  #: the module it comes from, or the line
    taken: bool
    text: str  #: the fused call: the convolution's fields and the chain
    ops: tuple[str, ...]  #: the chain that was taken
    found: tuple[str, ...]  #: the chain that could have been
    ended_by: str  #: the operation behind the longest chain
    reason: str  #: why the chain ends there, or why nothing was taken
    prologue: tuple[str, ...] = ()  #: what was taken before the convolution
    begins_behind: str = ""  #: the operation before the first that was taken
    begin_reason: str = ""  #: why that was not
    joined: bool = False  #: whether the result is written straight into a concatenation along channels

    def __str__(self) -> str:
        head = f"{self.convolution}{f' ({self.where})' if self.where else ''}: "
        if not self.taken:
            return head + f"left: {self.reason}"
        ops = (*self.prologue, "conv_transpose", *self.ops, *(("cat",) if self.joined else ()))
        begins = f"; begins: {_at(self.begins_behind, self.begin_reason)}" if self.begin_reason else ""
        return head + f"taken: {' | '.join(ops)}{begins}; ends: {_at(self.ended_by, self.reason)}"


def _at(operation: str, reason: str) -> str:
    return f"{operation}: {reason}" if operation else reason


def _where(node: Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if stack:
        path, kind = list(stack.values())[-1][:2]
        name = kind if isinstance(kind, str) else kind.__name__
        return f"{path}: {name.rpartition('.')[2]}"
    return ""


def _to(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    tensor = tensor_of(node)
    if tensor is None or tensor.dtype == dtype:
        return node
    cast = graph.call_method("to", (node, dtype))
    cast.meta["example_value"] = tensor.to(dtype)
    return cast


def _view(graph: Graph, call: Node, chain: Chain) -> Node:
    """The call's result (N, C, space...) with the axes that the graph expects."""
    running = chain.running
    order = [axis for axes in running.axes for axis in axes]
    dropped = [axis for axis in range(running.rank) if axis not in order]
    if dropped:
        call = graph.call_function(torch.squeeze, (call, tuple(dropped)))
    left = sorted(order)
    places = tuple(left.index(axis) for axis in order)
    if places != tuple(range(len(places))):
        call = graph.call_function(torch.permute, (call, places))
    for position, axes in enumerate(running.axes):
        if len(axes) > 1:
            call = graph.call_function(torch.flatten, (call, position, position + len(axes) - 1))
    return call


def _text(walked: Walk, chain: Chain) -> str:
    """The fused call's text."""
    convolution = walked.convolution
    result = convolution.result
    precision = _precision.of_graph(result.device) if result.dtype == torch.float32 else "ieee"
    return _chain.fields(
        convolution.stride, chain.padding, chain.output_padding, convolution.groups, convolution.dilation, precision,
        chain.text, walked.prologue.text)


def _replace(graph: Graph, walked: Walk, chain: Chain, join: Join | None) -> str:
    """Puts the fused call in the place of a chain's last node, or of the concatenation behind it; answers its text."""
    convolution, prologue = walked.convolution, walked.prologue
    dtype = chain.running.dtype
    text = _text(walked, chain)
    last = chain.running.node if join is None else join.node
    value = tensor_of(last)
    assert value is not None
    with graph.inserting_before(last):
        # Explicit casts, where autocast made them: the call's own type then does not depend on where it stands.
        input = _to(graph, prologue.input, dtype)
        if not convolution.batched:
            input = graph.call_function(torch.unsqueeze, (input, 0))
        weight = _to(graph, convolution.weight, dtype)
        operands = [
            operand.make(graph, operand.node) if operand.make else operand.node
            for operand in (*prologue.operands, *chain.operands)
        ]
        if join is not None:
            result = call = graph.call_function(
                _cat.conv_transpose_cat,
                (input, weight, operands, text, join.layout, 0, *(
                    [_to(graph, other, dtype) for other in others] for others in (join.before, join.after))))
        else:
            # Dynamo compiles anew where an input comes to require gradients.
            op = _op.conv_transpose if chain.running.tensor.requires_grad else _op.conv_transpose_bare
            call = graph.call_function(op, (input, weight, operands, text, chain.layout, 0))
            result = _view(graph, call, chain)
            if value.dtype != dtype and not is_rounded_at_once(last, dtype):  # but behind a concatenation
                result = graph.call_method("to", (result, value.dtype))
                dtype = value.dtype
    call.meta.update({key: last.meta[key] for key in ("nn_module_stack", "stack_trace", "source_fn_stack")
                      if key in last.meta})
    result.meta["example_value"] = value if value.dtype == dtype else value.to(dtype)
    last.replace_all_uses_with(result)
    taken = chain.taken if join is None else (*chain.taken, join.node)
    for node in sorted(taken, key=list(graph.nodes).index, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return text


def _walked(convolution: Convolution, options: Options) -> Walk | str:
    """The walk with the longest prologue, or without where that may not be."""
    if not convolution.batched:
        return walk(convolution, Prologue(convolution.input, reason="it has no batch"))
    prologue = prologue_of(convolution.node, convolution.input)
    bare = dataclasses.replace(prologue, input=convolution.input, ops=(), operands=(), taken=())
    if not prologue.taken:
        return walk(convolution, prologue)
    if not decide_prologue(convolution.result.device, options):
        return walk(convolution, dataclasses.replace(bare, ended_by="", reason="GPUs have it in a pass of its own"))
    walked = walk(convolution, prologue)
    return walk(convolution, dataclasses.replace(bare, ended_by="", reason=walked)) if isinstance(walked, str) else walked


def _one(graph: Graph, node: Node, options: Options) -> Found:
    where = _where(node)
    settle_writes_before(node)
    convolution = convolution_of(node)
    walked = convolution if isinstance(convolution, str) else _walked(convolution, options)
    if isinstance(walked, str):
        return Found(node.name, where, False, "", (), (), "", walked)
    if not walked.chains:
        return Found(node.name, where, False, "", (), (), "", "its result lies in memory in neither layout")
    longest = walked.chains[-1].ops
    first_refusal: list[Decision] = []

    def accepts(chain: Chain) -> bool:
        decision = decide(walked, chain, _text(walked, chain), options)
        if not decision.take:
            first_refusal.append(decision)
        return decision.take

    chain = best(walked, accepts)
    if chain is None:
        return Found(node.name, where, False, "", (), longest, walked.ended_by, first_refusal[0].reason)
    ended_by, reason = walked.ended_by, walked.reason
    if first_refusal:
        ended_by, reason = "", first_refusal[0].reason
    name = node.name
    join = join_of(walked, chain)
    if join is not None:
        ended_by, reason = "", "it writes into the concatenation"
    text = _replace(graph, walked, chain, join)
    return Found(
        name, where, True, text, chain.ops, longest, ended_by, reason, walked.prologue.ops, walked.prologue.ended_by,
        walked.prologue.reason, join is not None)


def _inside(graph: Graph, owner: GraphModule | None) -> Iterator[tuple[GraphModule, str]]:
    """The graphs that a graph's operations call, and what these operations are."""
    for node in graph.nodes if owner is not None else ():
        inside = getattr(owner, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(inside, GraphModule):
            names = {str(getattr(user.target, "__name__", user.target)) for user in node.users}
            yield inside, ", ".join(sorted(names))


def bodies(graph: Graph, owner: GraphModule | None) -> Iterator[GraphModule]:
    """The graphs inside of torch.utils.checkpoint, each before those inside of it."""
    for inside, caller in _inside(graph, owner):
        if caller == "tag_activation_checkpoint":
            yield inside
            yield from bodies(inside.graph, inside)


def left_inside(graph: Graph, owner: GraphModule | None, around: str = "") -> Iterator[Found]:
    """The transposed convolutions in graphs that are left alone: branches, loops, functions with derivatives of their own."""
    for inside, caller in _inside(graph, owner):
        place = around or ("" if caller == "tag_activation_checkpoint" else caller)
        for node in filter(is_transposed_convolution, inside.graph.nodes if place else ()):
            yield Found(node.name, _where(node), False, "", (), (), "", f"it is inside of {place}")
        yield from left_inside(inside.graph, inside, place)


def rewrite(graph: Graph, options: Options = Options()) -> list[Found]:
    """Fuses what it can in a graph, and says what it found. What is not understood is left as it was."""
    report = []
    derivatives = any(map(differentiates, graph.nodes))
    for node in list(graph.nodes):
        if node.graph is not graph or not is_transposed_convolution(node):
            continue
        name = node.name
        if derivatives:
            report.append(Found(name, _where(node), False, "", (), (), "", "torch.func takes derivatives in this graph"))
            continue
        try:
            report.append(_one(graph, node, options))
        except Exception as error:  # a model must not fail because of what it could have gained
            log.warning("convt: left %s alone: %s: %s", name, type(error).__name__, error)
            report.append(Found(name, "", False, "", (), (), "", f"{type(error).__name__}: {error}"))
    return report
