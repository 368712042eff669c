# SPDX-License-Identifier: Apache-2.0
"""The table of spellings: what each of PyTorch's operations is in the vocabulary of chains.

A spelling is a function of the running value and the node that uses it. It answers the step, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from .names import MISSING, bind, bind_dims, first, name_of
from .norms import NORMS
from .steps import Running, Step
from .terms import combined, limits
from .values import number, same, tensor_of, written

Spelling = Callable[[Running, Node], "Step | str"]
NOT_UNDERSTOOD = "its arguments are not understood"


def _plain(op: str) -> Spelling:
    """An operation without parameters."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node)
        return NOT_UNDERSTOOD if given is None and len(node.args) > 2 else Step(node, (op,))

    return spelling


def _numbers(op: str, **parameters: float) -> Spelling:
    """An operation with numbers for parameters, given by their names in PyTorch with their defaults."""

    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, **parameters, inplace=False)
        if given is None:
            return NOT_UNDERSTOOD
        values = [number(given[name]) for name in parameters]
        if None in values:
            return "a parameter is no constant number"
        return Step(node, (f"{op}({', '.join(written(value) for value in values if value is not None)})",))

    return spelling


def _gelu(running: Running, node: Node) -> Step | str:
    given = bind(node, approximate="none")
    if given is None or given["approximate"] not in ("none", "tanh"):
        return NOT_UNDERSTOOD
    return Step(node, ("gelu(tanh)" if given["approximate"] == "tanh" else "gelu",))


def _clamp(running: Running, node: Node) -> Step | str:
    given = bind(node, min=None, max=None)
    return NOT_UNDERSTOOD if given is None else limits(node, given["min"], given["max"])


def _clamp_one(which: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, which)
        if given is None or given[which] is MISSING:
            return NOT_UNDERSTOOD
        return limits(node, *(given[which] if side == which else None for side in ("min", "max")))

    return spelling


def _selu(running: Running, node: Node) -> Step | str:
    return Step(node, ("elu(1.6732632423543772)", "mul(1.0507009873554805)"))


def _celu(running: Running, node: Node) -> Step | str:
    given = bind(node, alpha=1.0, inplace=False)
    return Step(node, ("elu(1)",)) if given and given["alpha"] == 1 else "celu is elu only where alpha is 1"


def _fixed(*ops: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        return Step(node, ops)

    return spelling


def _dropout(running: Running, node: Node) -> Step | str:
    given = bind(node, p=0.5, training=True, inplace=False)
    if given is None or "train" in node.kwargs:
        given = bind(node, p=0.5, train=True)
        if given is None:
            return NOT_UNDERSTOOD
        given["training"] = given["train"]
    active = given["training"] is not False and given["p"] != 0
    return "dropout is active" if active else Step(node)


# ---- pools


def _each(value: Any, dims: int) -> tuple[int, ...] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * dims
    if isinstance(value, (tuple, list)) and all(isinstance(size, int) for size in value):
        return tuple(value) * dims if len(value) == 1 else tuple(value) if len(value) == dims else None
    return None


def _sizes(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


def _pool(op: str, dims: int) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        if not running.plain or running.rank != dims + 2:
            return "a pool of other axes than space"
        if op == "max_pool":
            given = bind(node, "size", stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
            given = given or _named_size(
                node, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
        else:
            given = bind(node, "size", stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                         divisor_override=None)
            given = given or _named_size(node, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                                         divisor_override=None)
        if given is None:
            return NOT_UNDERSTOOD
        if given.get("return_indices") or given.get("divisor_override") is not None:
            return "a pool with indices or a divisor of its own"
        if _each(given.get("dilation", 1), dims) != (1,) * dims:
            return "a pool with dilation"
        size = _each(given["size"], dims)
        stride = size if given["stride"] in (None, (), []) else _each(given["stride"], dims)
        padding = _each(given["padding"], dims)
        if size is None or stride is None or padding is None:
            return NOT_UNDERSTOOD
        words = [_sizes(size)]
        if stride != size:
            words.append(f"stride={_sizes(stride)}")
        if any(padding):
            words.append(f"padding={_sizes(padding)}")
        if given["ceil_mode"]:
            words.append("ceil")
        if any(padding) and given.get("count_include_pad") is False:
            words.append("count_include_pad=false")
        elif given["ceil_mode"] and given.get("count_include_pad") is False:
            words.append("count_include_pad=false")
        return Step(node, (f"{op}({', '.join(words)})",))

    return spelling


def _named_size(node: Node, **defaults: Any) -> dict[str, Any] | None:
    """Of a pool whose size is given by name."""
    given = bind(node, "kernel_size", **defaults)
    return None if given is None else {**given, "size": given["kernel_size"]}


def _adaptive(dims: int) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, "output_size")
        if given is None or not running.plain or running.rank != dims + 2:
            return NOT_UNDERSTOOD
        if _each(given["output_size"], dims) != (1,) * dims:
            return "an adaptive pool to more than one element"
        return Step(node, ("global_avg_pool",))

    return spelling


# ---- reductions


def _reduced(running: Running, node: Node, op: str, dim: Any, keepdim: Any, last: Node | None = None) -> Step | str:
    """A reduction over axes: over channels, over all of space where it is a mean, or over axes of one element."""
    if dim in (None, (), [], MISSING):
        return "reduces over the batch too"
    axes = running.axes_of(dim)
    if axes is None or not isinstance(keepdim, bool):
        return NOT_UNDERSTOOD
    left = running.axes if keepdim else tuple(axis for axis in running.axes if axis not in axes)
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
    elif busy == {1}:
        ops = (op,)
    else:
        return "reduces over other axes than channels, or all of space for a mean"
    return Step(last or node, ops, axes=left, through=through)


def _reduction(op: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind_dims(node, "dim", keepdim=False, dtype=None)
        if given is None or given["dtype"] not in (None, running.tensor.dtype):
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
        if same(running.sizes[running.axis(other) or 0], 1):
            return "reduces over an axis of one element"
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


def _softmax(running: Running, node: Node) -> Step | str:
    given = bind(node, dim=None, _stacklevel=3, dtype=None)
    given = given or bind(node, dim=None, dtype=None)
    if given is None or given["dtype"] not in (None, running.tensor.dtype):
        return NOT_UNDERSTOOD
    axes = running.axes_of(given["dim"])
    return Step(node, ("softmax",)) if axes == {1} else "a softmax over other axes than channels"


# ---- views and nothing


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
    if given is None or given["dim"] is MISSING:
        return "drops axes by their sizes"
    axes = running.axes_of(given["dim"])
    if axes is None or not all(same(running.sizes[axis], 1) for axis in axes):
        return "drops an axis that may have more than one element"
    return Step(node, axes=tuple(axis for axis in running.axes if axis not in axes))


def _reshape(running: Running, node: Node) -> Step | str:
    """Of one element per channel to (N, C)."""
    result = tensor_of(node)
    sizes = running.sizes
    if result is not None and result.dim() == 2 and running.axes[:2] == (0, 1) and all(
        same(size, 1) for size in sizes[2:]
    ) and same(result.shape[0], sizes[0]) and same(result.shape[1], sizes[1]):
        return Step(node, axes=(0, 1))
    return "a view that is no permutation of axes"


def _nothing(running: Running, node: Node) -> Step | str:
    """Copies, and conversions to the type that the value has: only where the result lies in memory may differ."""
    result = tensor_of(node)
    if result is None or result.dtype != running.tensor.dtype or result.device != running.tensor.device:
        return "converts the value"
    return Step(node)


def _detach(running: Running, node: Node) -> Step | str:
    return "stops gradients" if running.tensor.requires_grad else Step(node)


SPELLINGS: dict[str, Spelling] = {
    **{name: _plain(name) for name in ("relu", "sigmoid", "tanh", "silu", "hardswish", "hardsigmoid", "mish")},
    "gelu": _gelu,
    "leaky_relu": _numbers("leaky_relu", negative_slope=0.01),
    "elu": _numbers("elu", alpha=1.0),
    "hardtanh": _numbers("hardtanh", min_val=-1.0, max_val=1.0),
    "softplus": _numbers("softplus", beta=1.0, threshold=20.0),
    "relu6": _fixed("clamp(0, 6)"),
    "selu": _selu,
    "celu": _celu,
    "neg": _fixed("mul(-1)"),
    "positive": _fixed(),
    "clamp": _clamp,
    "clamp_min": _clamp_one("min"),
    "clamp_max": _clamp_one("max"),
    **{name: combined(name) for name in ("add", "sub", "mul", "div", "rsub")},
    **{name: _dropout for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
                                   "feature_dropout", "feature_alpha_dropout")},
    **NORMS,
    **{f"max_pool{dims}d": _pool("max_pool", dims) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": _pool("avg_pool", dims) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _adaptive(dims) for dims in (1, 2, 3)},
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "logsumexp": _reduction("logsumexp"),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "maximum": _limited("max"),
    "minimum": _limited("min"),
    "softmax": _softmax,
    "_softmax": _softmax,
    "permute": _permute,
    "transpose": _transpose,
    "movedim": _movedim,
    "squeeze": _squeeze,
    **{name: _reshape for name in ("view", "reshape", "flatten")},
    **{name: _nothing for name in ("contiguous", "clone", "to", "float", "half", "bfloat16", "double", "type_as", "alias")},
    "detach": _detach,
}
