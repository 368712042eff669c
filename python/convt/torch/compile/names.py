# SPDX-License-Identifier: Apache-2.0
"""Which operation a node is, whatever its spelling: function, method, operator, in place or not."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

_MODULES = (
    "torch", "torch.nn.functional", "torch._C._nn", "torch._C._VariableFunctions", "torch.functional", "torch.special",
    "torch._C._special", "torch._C._linalg")
_OPERATORS: dict[Callable[..., Any], tuple[str, bool]] = {
    operator.add: ("add", False), operator.iadd: ("add", True),
    operator.sub: ("sub", False), operator.isub: ("sub", True),
    operator.mul: ("mul", False), operator.imul: ("mul", True),
    operator.truediv: ("div", False), operator.itruediv: ("div", True),
    getattr: ("getattr", False),
    operator.neg: ("neg", False), operator.getitem: ("getitem", False), operator.setitem: ("setitem", True), operator.pow: ("pow", False),
    operator.gt: ("gt", False), operator.ge: ("ge", False), operator.lt: ("lt", False), operator.le: ("le", False),
}
_SYNONYMS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "clip": "clamp",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "special_expit": "sigmoid",
    "absolute": "abs", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "special_logsumexp": "logsumexp", "special_softmax": "softmax", "special_log_softmax": "log_softmax", "__add__": "add", "__mul__": "mul",
    "__sub__": "sub", "__truediv__": "div", "__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__pow__": "pow",
}


@functools.cache
def _function(target: Any) -> tuple[str, bool] | None:
    """The name of a function's operation, and whether it writes into its first argument."""
    if target in _OPERATORS:
        return _OPERATORS[target]
    if isinstance(target, torch._ops.OpOverload):
        if target.namespace != "aten":
            return None
        name = target._schema.name.partition("::")[2]
    else:
        name = getattr(target, "__name__", "")
        module = getattr(target, "__module__", None)
        if not name or module not in _MODULES:
            return None
    return _method(name)


@functools.cache
def _method(name: str) -> tuple[str, bool]:
    if name.startswith("__i") and name.endswith("__") and name != "__invert__":
        return {"truediv": "div"}.get(name[3:-2], name[3:-2]), True
    in_place = name.endswith("_") and not name.endswith("__")
    name = name[:-1] if in_place else name
    return _SYNONYMS.get(name, name), in_place


def name_of(node: Any) -> str:
    """The name of a node's operation, "" where it is unknown."""
    found = _name_and_place(node)
    return found[0] if found else ""


def is_known(node: Node) -> bool:
    """Whether it is known what a node does to memory: its operation has a name, or a schema."""
    return _name_and_place(node) is not None or isinstance(node.target, torch._ops.OpOverload) or (
        node.op == "call_function" and not _unknown_writes(node))


def _name_and_place(node: Any) -> tuple[str, bool] | None:
    if not isinstance(node, Node):
        return None
    if node.op == "call_method":
        return _method(str(node.target))
    return _function(node.target) if node.op == "call_function" else None


# Positions of an argument `inplace` in torch.nn.functional.
_INPLACE = {
    "relu": 1, "leaky_relu": 2, "elu": 2, "silu": 1, "hardswish": 1, "hardsigmoid": 1, "mish": 1, "hardtanh": 3,
    "relu6": 1, "selu": 1, "celu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3, "alpha_dropout": 3,
    "feature_alpha_dropout": 3, "threshold": 3, "rrelu": 4,
}


def writes_in_place(node: Node) -> bool:
    """Whether a node may write into one of its arguments."""
    found = _name_and_place(node)
    if node.kwargs.get("inplace") or node.kwargs.get("out") is not None:
        return True
    if found is None:
        return node.op in ("call_function", "call_method", "call_module") and _unknown_writes(node)
    name, in_place = found
    position = _INPLACE.get(name)
    if in_place or (position is not None and node.op == "call_function" and len(node.args) > position
                    and bool(node.args[position]) and not isinstance(node.target, torch._ops.OpOverload)):
        return True
    return False


def _unknown_writes(node: Node) -> bool:
    """Of an operation whose name is unknown, nothing is taken for granted, but for operators with a schema."""
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.is_mutable)
    module = getattr(node.target, "__module__", "") or ""
    if module.startswith(("math", "_operator")):
        return node.target in _WRITING_OPERATORS
    return not (module == "builtins" and getattr(node.target, "__name__", "") == "getattr")


_WRITING_OPERATORS = frozenset(
    getattr(operator, name) for name in (
        "setitem", "delitem", "ipow", "imod", "ifloordiv", "iand", "ior", "ixor", "ilshift", "irshift", "imatmul",
        "iconcat"))
_MODES = frozenset(("_set_grad_enabled", "set_grad_enabled", "_enter_autocast", "_exit_autocast", "_enter_inference_mode",
                    "_exit_inference_mode"))
_NESTINGS = frozenset(("_grad_increment_nesting", "_jvp_increment_nesting", "_enter_dual_level"))


def changes_mode(node: Node) -> bool:
    """Whether a node changes how those behind it are run: whether gradients are recorded, in which type."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _MODES


def differentiates(node: Node) -> bool:
    """Whether a node begins a transformation of torch.func that asks for derivatives inside of the graph."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _NESTINGS


class Missing:
    """Stands for an argument that was not given."""


MISSING = Missing()


def bind(node: Node, *names: str, **defaults: Any) -> dict[str, Any] | None:
    """A node's arguments behind the first, by name; None where there are others."""
    values = dict.fromkeys(names, MISSING) | defaults
    order = [*names, *defaults]
    if len(node.args) - 1 > len(order):
        return None
    for name, value in zip(order, node.args[1:]):
        values[name] = value
    for name, value in node.kwargs.items():
        if name in ("input", "self", "inplace") and name not in values:
            continue
        if name not in values:
            return None
        values[name] = value
    return values


def bind_dims(node: Node, *names: str, **defaults: Any) -> dict[str, Any] | None:
    """bind(), of an operation whose first argument may also be given as several: x.permute(0, 2, 3, 1)."""
    if len(node.args) > 2 and all(isinstance(arg, int) and not isinstance(arg, bool) for arg in node.args[1:]):
        return dict(zip(names, [tuple(node.args[1:])])) | defaults if not node.kwargs else None
    return bind(node, *names, **defaults)


def first(node: Node) -> Any:
    """A node's first argument."""
    if node.args:
        return node.args[0]
    return node.kwargs.get("input", node.kwargs.get("self"))
