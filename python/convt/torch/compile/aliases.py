# SPDX-License-Identifier: Apache-2.0
"""Which nodes' tensors may share memory, and which nodes write into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from .names import first, is_known, name_of, writes_in_place
from .values import tensor_of

# Operations whose result may be a view of their argument, or the argument itself.
_VIEWS = frozenset("""
    view view_as reshape reshape_as permute transpose movedim squeeze unsqueeze flatten unflatten expand expand_as
    broadcast_to getitem getattr select narrow chunk split split_with_sizes tensor_split unbind unfold diagonal t
    contiguous to float half bfloat16 double type type_as detach alias real imag atleast_1d atleast_2d atleast_3d
    dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout hsplit vsplit dsplit
    as_strided swapaxes adjoint mT T H data requires_grad_ requires_grad ravel cpu cuda positive pad
    broadcast_tensors rearrange tile einsum conj resolve_conj resolve_neg sum_to_size asarray as_tensor from_dlpack slice
    view_as_real view_as_complex matrix_transpose swapdims moveaxis
""".split())


def roots(node: Node) -> set[Node]:
    """The nodes whose memory a node's tensor may be."""
    found: set[Node] = set()
    seen: set[Node] = set()
    open_nodes = [node]
    while open_nodes:
        current = open_nodes.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.op in ("placeholder", "get_attr"):
            found.add(current)
        elif not is_known(current):
            found.add(current)
            open_nodes += current.all_input_nodes
        elif name_of(current) in _VIEWS or writes_in_place(current) or _has_alias(current):
            found.add(current)
            open_nodes += current.all_input_nodes
        else:
            found.add(current)
    return found


def _has_alias(node: Node) -> bool:
    """Whether the schema of a node's operation says that its result may be a view."""
    return isinstance(node.target, torch._ops.OpOverload) and any(
        result.alias_info is not None for result in node.target._schema.returns)


# Norms that may update running statistics, and their flag's default; it stands behind five other arguments.
_MEASURING = {"batch_norm": ("training", False), "native_batch_norm": ("training", True),
              "instance_norm": ("use_input_stats", True)}


def _statistics(node: Node) -> list[Node]:
    """The running statistics, or all it might be, that a norm updates."""
    flag, default = _MEASURING.get(name_of(node), ("", False))
    measures = node.kwargs.get(flag, node.args[5] if len(node.args) > 5 else default)
    return [value for value in node.all_input_nodes if value is not first(node)] if flag and measures is not False else []


def written(node: Node) -> Iterable[Node]:
    """The nodes into whose tensors a node may write."""
    if not is_known(node):
        return node.all_input_nodes
    values: list[Any] = []
    if isinstance(node.target, torch._ops.OpOverload):
        arguments = node.target._schema.arguments
        given = [*node.args, *(node.kwargs.get(argument.name) for argument in arguments[len(node.args) :])]
        values = [value for argument, value in zip(arguments, given) if argument.is_write]
    elif writes_in_place(node):
        values = [first(node), node.kwargs.get("out")]
    targets = _statistics(node)
    torch.fx.map_arg(values, targets.append)  # also inside of lists
    return targets


def _storages(nodes: Iterable[Node]) -> set[int]:
    """The memory of those nodes that are given to the graph: arguments may be views of each other."""
    tensors = (tensor_of(node) for node in nodes if node.op in ("placeholder", "get_attr"))
    return {tensor.untyped_storage()._cdata for tensor in tensors if tensor is not None}


def writer_between(start: Node, end: Node | None, skipped: set[Node], memory: set[Node]) -> Node | None:
    """The first node between two (or behind the first) that may write into this memory and is none of those skipped."""
    given = _storages(memory)
    node = start.next
    while node is not end and node.op != "root":
        if node not in skipped and node.op not in ("placeholder", "output", "get_attr"):
            for target in written(node):
                into = roots(target)
                if into & memory or _storages(into) & given:
                    return node
        node = node.next
    return None
