# SPDX-License-Identifier: Apache-2.0
"""The table of spellings: what each of PyTorch's operations is in the vocabulary of chains.

A spelling is a function of the running value and the node that uses it. It answers the step, or why there is none.
"""

from __future__ import annotations

import math
from typing import Any

from torch.fx import Node

from .crops import negative_pad
from .names import MISSING, bind, first
from .norms import NORMS
from .reductions import REDUCTIONS, axes_text
from .steps import NOT_UNDERSTOOD, Running, Spelling, Step
from .terms import added_product, combined, lerp, limits, prelu
from .values import number, sizes_text, written
from .views import VIEWS


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


def _fixed(*ops: str) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        return Step(node, ops)

    return spelling


def _pow(running: Running, node: Node) -> Step | str:
    given = bind(node, "exponent")
    exponent = None if given is None or first(node) is not running.node else number(given["exponent"])
    return "its exponent is no constant number" if exponent is None else Step(node, (f"pow({written(exponent)})",))


def _softshrink(running: Running, node: Node) -> Step | str:
    given = bind(node, lambd=0.5)
    limit = None if given is None else number(given["lambd"])
    if limit is None:
        return NOT_UNDERSTOOD
    return Step(node, ("keep(@x)", f"clamp({written(-limit)}, {written(limit)})", "mul(-1)", "add(@x)"))


def _normalize(running: Running, node: Node) -> Step | str:
    """F.normalize: divided by its length."""
    given = bind(node, p=2.0, dim=1, eps=1e-12)
    if given is None or number(given["p"]) != 2 or number(given["eps"]) is None:
        return NOT_UNDERSTOOD
    over = axes_text(running, running.axes_of(given["dim"]))
    if over is None:
        return "normalises other axes than channels and space"
    eps = written(number(given["eps"]) or 0.0)
    return Step(node, ("keep(@x)", "pow(2)", f"sum{over}", "sqrt", f"clamp(min={eps})", "pow(-1)", "mul(@x)"))


def _pad(running: Running, node: Node) -> Step | str:
    """Of nothing: U-Nets pad what they have upsampled to the skip's size, which is mostly the same. Or by less."""
    given = bind(node, "pad", mode="constant", value=None)
    if given is None or not isinstance(given["pad"], (tuple, list)):
        return NOT_UNDERSTOOD
    if not all(isinstance(size, int) and size <= 0 for size in given["pad"]):
        return "the vocabulary has no such operation"
    return negative_pad(running, node, list(given["pad"]))


def _rrelu(running: Running, node: Node) -> Step | str:
    given = bind(node, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False)
    if given is None or given["training"] is not False:
        return "its slopes are random"
    lower, upper = number(given["lower"]), number(given["upper"])
    if lower is None or upper is None:
        return NOT_UNDERSTOOD
    return Step(node, (f"leaky_relu({written((lower + upper) / 2)})",))


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
        words = [sizes_text(size)]
        if stride != size:
            words.append(f"stride={sizes_text(stride)}")
        if any(padding):
            words.append(f"padding={sizes_text(padding)}")
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


def _adaptive(op: str, dims: int) -> Spelling:
    def spelling(running: Running, node: Node) -> Step | str:
        given = bind(node, "output_size", return_indices=False)
        if given is None or given["return_indices"] or not running.plain or running.rank != dims + 2:
            return NOT_UNDERSTOOD
        wanted = _each(given["output_size"], dims)
        if op == "avg_pool" and wanted == (1,) * dims:
            return Step(node, ("global_avg_pool",))
        # Windows of one size, side by side, where the sizes do not change and divide.
        space = running.space
        if wanted is None or not all(isinstance(size, int) for size in space) or any(
            count == 0 or size % count for size, count in zip(space, wanted)
        ):
            return "an adaptive pool whose windows differ"
        return Step(node, (f"{op}({sizes_text(tuple(size // count for size, count in zip(space, wanted)))})",))

    return spelling


SPELLINGS: dict[str, Spelling] = {
    **{name: _plain(name) for name in (
        "relu", "sigmoid", "tanh", "silu", "hardswish", "hardsigmoid", "mish", "relu6", "selu", "softsign", "logsigmoid",
        "abs", "sqrt", "exp", "log")},
    "gelu": _gelu,
    "leaky_relu": _numbers("leaky_relu", negative_slope=0.01),
    "elu": _numbers("elu", alpha=1.0),
    "hardtanh": _numbers("hardtanh", min_val=-1.0, max_val=1.0),
    "softplus": _numbers("softplus", beta=1.0, threshold=20.0),
    "celu": _numbers("celu", alpha=1.0),
    "hardshrink": _numbers("hardshrink", lambd=0.5),
    "threshold": _numbers("threshold", threshold=math.nan, value=math.nan),
    "prelu": prelu,
    "pad": _pad,
    "rrelu": _rrelu,
    "log_sigmoid": _fixed("logsigmoid"),
    "pow": _pow,
    "square": _fixed("pow(2)"),
    "rsqrt": _fixed("pow(-0.5)"),
    "reciprocal": _fixed("pow(-1)"),
    "log2": _fixed("log", f"mul({1 / math.log(2)!r})"),
    "log10": _fixed("log", f"mul({1 / math.log(10)!r})"),
    "softshrink": _softshrink,
    "tanhshrink": _fixed("keep(@x)", "tanh", "mul(-1)", "add(@x)"),
    "normalize": _normalize,
    "neg": _fixed("mul(-1)"),
    "positive": _fixed(),
    "clamp": _clamp,
    "clamp_min": _clamp_one("min"),
    "clamp_max": _clamp_one("max"),
    **{name: combined(name) for name in ("add", "sub", "mul", "div", "rsub")},
    "addcmul": added_product("mul"),
    "addcdiv": added_product("div"),
    "lerp": lerp,
    **{name: _dropout for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
                                   "feature_dropout", "feature_alpha_dropout")},
    **NORMS,
    **{f"max_pool{dims}d": _pool("max_pool", dims) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": _pool("avg_pool", dims) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _adaptive("avg_pool", dims) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d": _adaptive("max_pool", dims) for dims in (1, 2, 3)},
    **REDUCTIONS,
    **VIEWS,
}
