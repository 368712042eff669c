# SPDX-License-Identifier: Apache-2.0
"""Reductions over channels and over space."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch.fx import Node

from .names import MISSING, bind, bind_dims, first, name_of
from .steps import NOT_UNDERSTOOD, Running, Spelling, Step
from .terms import limits
from .values import number, same


def axes_text(running: Running, axes: set[int] | None) -> str | None:
    """Axes as an op's argument: nothing for channels alone; None where the batch is among them."""
    if not axes or 0 in axes:
        return None
    if axes == {1}:
        return ""
    letters = "c" + "dhw"[5 - running.rank :]
    return f"(axes={''.join(letters[axis - 1] for axis in sorted(axes))})"


def _reduced(running: Running, node: Node, op: str, dim: Any, keepdim: Any, last: Node | None = None) -> Step | str:
    """A reduction over any axes but the batch; over those of one element it is nothing."""
    if dim in (None, (), [], MISSING):
        return "reduces over the batch too"
    axes = running.axes_of(dim)
    if axes is None or not isinstance(keepdim, bool):
        return NOT_UNDERSTOOD
    left = running.axes if keepdim else running.without(axes)
    through = () if last is None else (node,)
    sizes = running.sizes
    busy = {axis for axis in axes if not same(sizes[axis], 1)}
    space = {axis for axis in range(2, running.rank) if not same(sizes[axis], 1)}
    ops: tuple[str, ...]
    if 0 in axes:
        return "reduces over the batch"
    if not busy and op != "softmax":
        ops = ()
    elif op == "mean" and busy == space:
        ops = ("global_avg_pool",)
    elif op == "mean" and busy == space | {1}:
        ops = ("mean", "global_avg_pool")
    else:
        ops = (f"{op}{axes_text(running, busy)}",)
    return Step(last or node, ops, axes=left, through=through)


def _is_open(running: Running, dtype: Any) -> bool:
    """Whether a reduction may convert the value to this type first: it is none, or the one that chains compute in."""
    return dtype in (None, running.tensor.dtype) or (dtype == torch.float32 and running.dtype.itemsize == 2)


def _reduction(op: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind_dims(node, "dim", keepdim=False, dtype=None)
        if given is None or not _is_open(running, given["dtype"]):
            return NOT_UNDERSTOOD
        return _reduced(running, node, op, given["dim"], given["keepdim"])

    return spelling


def _extreme(op: str) -> Spelling:
    """max and min: over an axis, of which the values are used, or with a number."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, "dim", keepdim=False)
        if given is None:
            given = bind(node, "other")
            if given is None:
                return NOT_UNDERSTOOD
            given["dim"] = given["other"]
        other = given["dim"]
        if isinstance(other, Node) or (isinstance(first(node), Node) and first(node) is not running.node):
            return _limited(op)(running, node)
        if other is MISSING:
            return "reduces over everything"
        users = list(node.users)
        if len(users) != 1 or name_of(users[0]) not in ("getitem", "getattr"):
            return "its indices are used"
        if users[0].args[1] not in (0, "values"):
            return "its indices are used"
        return _reduced(running, node, op, other, given["keepdim"], users[0])

    return spelling


def _limited(op: str) -> Spelling:
    """maximum(x, number), minimum(x, number)."""

    def spelling(running: Running, node: Node) -> Step | str:
        if len(node.args) != 2 or node.kwargs:
            return NOT_UNDERSTOOD
        other = node.args[1] if node.args[0] is running.node else node.args[0]
        return limits(node, other, None) if op == "max" else limits(node, None, other)

    return spelling


def _softmax(op: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, dim=None, _stacklevel=3, dtype=None)
        given = given or bind(node, dim=None, dtype=None)
        if given is None or not _is_open(running, given["dtype"]):
            return NOT_UNDERSTOOD
        over = axes_text(running, running.axes_of(given["dim"]))
        if over is None:
            return f"a {op} over the batch"
        before = ("mul(-1)",) if name_of(node) == "softmin" else ()
        return Step(node, (*before, f"{op}{over}"))

    return spelling


def _length(name: str) -> Spelling:
    """x.norm(dim=1): the root of the sum of squares."""

    def spelling(running: Running, node: Node) -> Step | str:
        if name == "norm":  # torch.norm and the method
            given = bind(node, p="fro", dim=None, keepdim=False, dtype=None)
        else:
            given = bind(node, ord=2, dim=None, keepdim=False, dtype=None)
        if given is None or given["dtype"] is not None or isinstance(given["dim"], Node):
            return NOT_UNDERSTOOD
        order = given["p"] if name == "norm" else given["ord"]
        over = given["dim"] if isinstance(given["dim"], (tuple, list)) else (given["dim"],)
        if order == "fro" or (order is None and name != "vector_norm"):
            order = 2
        # linalg.norm of two axes is a matrix norm, of which ord=None alone is the same.
        if number(order) not in (1, 2) or (name == "linalg_norm" and len(over) > 1):
            return "a norm that is no length"
        before, after = (("abs",), ()) if number(order) == 1 else (("pow(2)",), ("sqrt",))
        step = _reduced(running, node, "sum", given["dim"], given["keepdim"])
        return step if isinstance(step, str) else dataclasses.replace(step, ops=(*before, *step.ops, *after))

    return spelling


def _deviation(name: str) -> Spelling:
    """var and std."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind_dims(node, "dim", unbiased=True, keepdim=False, correction=None)
        if given is None or not isinstance(given["unbiased"], bool):
            return NOT_UNDERSTOOD
        correction = float(given["unbiased"]) if given["correction"] is None else number(given["correction"])
        step = _reduced(running, node, "mean", given["dim"], given["keepdim"])
        if isinstance(step, str) or correction is None:
            return step if isinstance(step, str) else NOT_UNDERSTOOD
        count = math.prod(running.sizes[axis] for axis in running.axes_of(given["dim"]) or ())
        if correction and (not isinstance(count, int) or count <= correction):
            return "divides by a size that may change"
        rest = (f"mul({count / (count - correction)!r})",) if correction else ()
        root = ("sqrt",) if name == "std" else ()
        ops = ("keep(@x)", *step.ops, "mul(-1)", "add(@x)", "pow(2)", *step.ops, *rest, *root)
        return dataclasses.replace(step, ops=ops)

    return spelling


REDUCTIONS: dict[str, Spelling] = {
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "logsumexp": _reduction("logsumexp"),
    "norm": _length("norm"),
    "linalg_norm": _length("linalg_norm"),
    **{name: _length("vector_norm") for name in ("vector_norm", "linalg_vector_norm")},
    "var": _deviation("var"),
    "std": _deviation("std"),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "maximum": _limited("max"),
    "minimum": _limited("min"),
    **{name: _softmax("softmax") for name in ("softmax", "_softmax", "softmin")},
    **{name: _softmax("log_softmax") for name in ("log_softmax", "_log_softmax")},
}
