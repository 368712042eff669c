# SPDX-License-Identifier: Apache-2.0
"""Which nodes' tensors may share memory, and which nodes write into it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.fx import Node

from .names import first, is_known, name_of, writes_in_place

# Operations whose result may be a view of their argument, or the argument itself.
_VIEWS = frozenset("""
    view view_as reshape reshape_as permute transpose movedim squeeze unsqueeze flatten unflatten expand expand_as
    broadcast_to getitem getattr select narrow chunk split split_with_sizes tensor_split unbind unfold diagonal t
    contiguous to float half bfloat16 double type type_as detach alias real imag atleast_1d atleast_2d atleast_3d
    dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout hsplit vsplit dsplit
    as_strided swapaxes adjoint mT T H data requires_grad_ requires_grad ravel cpu cuda positive pad
    broadcast_tensors rearrange tile
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
        elif name_of(current) in _VIEWS or writes_in_place(current):
            found.add(current)
            open_nodes += current.all_input_nodes
        else:
            found.add(current)
    return found


def written(node: Node) -> Iterable[Node]:
    """The nodes into whose tensors a node that writes may write."""
    if not is_known(node):
        return node.all_input_nodes
    if isinstance(node.target, torch._ops.OpOverload):
        arguments = node.target._schema.arguments
        values = [*node.args, *(node.kwargs.get(argument.name) for argument in arguments[len(node.args) :])]
        return [value for argument, value in zip(arguments, values) if argument.is_write and isinstance(value, Node)]
    targets = [first(node), node.kwargs.get("out")]
    return [target for target in targets if isinstance(target, Node)]


def writer_between(start: Node, end: Node | None, skipped: set[Node], memory: set[Node]) -> Node | None:
    """The first node between two (or behind the first) that may write into this memory and is none of those skipped."""
    node = start.next
    while node is not end and node.op != "root":
        if node not in skipped and node.op not in ("placeholder", "output") and writes_in_place(node):
            if any(roots(target) & memory for target in written(node)):
                return node
        node = node.next
    return None
