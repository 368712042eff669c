# SPDX-License-Identifier: Apache-2.0
"""Activations that people write by hand, in which the running value is used more than once: x * sigmoid(x),
0.5 * x * (1 + erf(x / sqrt(2))), x * 2 + x.

A region of pointwise operations on one value and on numbers is known by what it computes: it is run on some numbers in
float64, and compared with the functions of the vocabulary. Both must be equal to the precision of float32 relative to
the result, not to the largest result: a logarithm or a division may follow. Where the region itself loses digits, as
exp(x) - 1 does near 0, rounding it could not tell the two apart, and as much is allowed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from .names import name_of, writes_in_place
from .steps import Running, Step, each_of
from .values import same_shape, tensor_of, written

POINTWISE = frozenset("""
    add sub rsub mul div neg pow square sqrt rsqrt exp erf sigmoid tanh softplus relu relu6 hardsigmoid hardtanh clamp
    clamp_min clamp_max silu gelu mish hardswish leaky_relu elu abs reciprocal clone exp2 expm1 log log1p sign
    logsigmoid softsign selu celu threshold maximum minimum max min where gt ge lt le zeros_like ones_like full_like
    float double to type_as
""".split())
_MOST_NODES = 16
_ROUNDINGS = 4  # how many times the region is run with its roundings drawn
_SLACK = 4  # times what these lose, and what two roundings of the result do

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu, "gelu": F.gelu, "gelu(tanh)": functools.partial(F.gelu, approximate="tanh"), "mish": F.mish,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "softplus": F.softplus, "relu": F.relu, "abs": torch.abs, "relu6": F.relu6, "softsign": F.softsign,
    "logsigmoid": F.logsigmoid, "selu": F.selu,
}


_ZERO, _ONE, _NEAR = 96, 104, 193  # where the points 0 and 1 are, and how many are near 0


@functools.cache
def _points() -> torch.Tensor:
    """Near 0, where activations bend, and far from it, where something may have been cut off; down to what float32 has."""
    far = torch.tensor([20.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e10, 1e20, 1e30], dtype=torch.float64)
    near = torch.linspace(-12, 12, _NEAR, dtype=torch.float64)
    # And off that grid, dense enough for a threshold or a wave between its points to show.
    steps = torch.arange(1, 2048, dtype=torch.float64)
    between = (steps * 0.6180339887498949 % 1 - 0.5) * 26
    tiny = torch.cat([torch.logspace(-5, 1.3, 128, dtype=torch.float64), torch.logspace(-37, -5, 65, dtype=torch.float64)])
    return torch.cat([near, far, -far, between, tiny, -tiny])


def _keeps_shape(running: Running, node: Node) -> bool:
    """max() may be a reduction too."""
    result = tensor_of(node)
    return result is not None and same_shape(result.shape, running.tensor.shape)


def _region(running: Running) -> list[Node]:
    """The pointwise operations on the running value and on what they make of it, in the graph's order."""
    inside = {running.node: None}
    node = running.node.next
    while node.op != "root" and len(inside) <= _MOST_NODES:
        if (
            name_of(node) in POINTWISE and not writes_in_place(node) and node.all_input_nodes
            and all(value in inside for value in node.all_input_nodes) and _keeps_shape(running, node)
        ):
            inside[node] = None
        node = node.next
    return list(inside)[1:]


def closed(running: Running, region: list[Node], end: Node, shared: bool = False) -> list[Node] | None:
    """The nodes that lead to `end`; None where one of them is used elsewhere too, or the value itself unless `shared`."""
    taken: set[Node] = set()
    waiting = [end]
    while waiting:
        node = waiting.pop()
        if node not in taken and node is not running.node:
            taken.add(node)
            waiting += node.all_input_nodes
    rest = taken - {end}
    if all(set(node.users) <= taken for node in ((*rest,) if shared else (running.node, *rest))):
        return [node for node in region if node in rest]
    return None


def _is_cast(running: Running, node: Node) -> bool:
    """Whether a node converts to the call's type or a wider one, which changes nothing: chains compute in one type."""
    result = tensor_of(node)
    return name_of(node) in ("float", "double", "to", "type_as") and result is not None and (
        result.dtype in (running.dtype, torch.float64) or running.may_be(result))


def _evaluated(running: Running, nodes: list[Node], rounding: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """What the nodes make of the points in float64, each operation's result rounded."""
    values: dict[Node, Any] = {running.node: _points()}
    for node in nodes:
        args, kwargs = torch.fx.map_arg((tuple(node.args), dict(node.kwargs)), values.__getitem__)
        if _is_cast(running, node):
            values[node] = args[0]
            continue
        if node.op == "call_method":
            value = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            value = node.target(*args, **kwargs)  # type: ignore[operator]
        is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
        values[node] = rounding(value) if is_number else value
    return values[nodes[-1]]


@dataclasses.dataclass(frozen=True)
class _Curve:
    """What a region makes of the points, and how far from that another function may be to count as the same."""

    y: torch.Tensor
    slack: torch.Tensor

    def is_near(self, other: torch.Tensor) -> bool:
        return bool(((self.y - other).abs() <= self.slack).all())


def _computed(running: Running, nodes: list[Node]) -> _Curve | None:
    """The region's curve; None where it is none, or not finite everywhere."""
    unit = 2.0**-45 if running.tensor.dtype == torch.float64 else 2.0**-24
    with unset_fake_temporarily(), torch.no_grad():
        y = _evaluated(running, nodes, lambda value: value)
        if not isinstance(y, torch.Tensor) or y.shape != _points().shape or not bool(torch.isfinite(y).all()):
            return None
        generator = torch.Generator().manual_seed(1)

        def rounded(value: torch.Tensor) -> torch.Tensor:
            drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64)
            return value * (1 + unit * (2 * drawn - 1))

        lost = torch.zeros_like(y)
        for _ in range(_ROUNDINGS):
            lost = torch.maximum(lost, (_evaluated(running, nodes, rounded) - y).abs())
        return _Curve(y.double(), _SLACK * (lost.nan_to_num(0.0, 0.0) + 2 * unit * y.abs()))


def _rounded(value: float) -> float:
    """A number as it was probably written."""
    for digits in range(1, 10):
        near = float(f"{value:.{digits}g}")
        if abs(near - value) <= 1e-9 * abs(value):
            return near
    return value


def _ops(curve: _Curve) -> tuple[str, ...] | None:
    """The ops that make the curve of the points."""
    x, y = _points(), curve.y
    slope = _rounded(float(y[_ONE] - y[_ZERO]))
    shift = _rounded(float(y[_ZERO]))
    if curve.is_near(slope * x + shift):
        return (*([f"mul({written(slope)})"] if slope != 1 else []), *([f"add({written(shift)})"] if shift else []))
    for op, function in _FUNCTIONS.items():
        g = function(x)
        factor = _rounded(float((y * g)[:_NEAR].sum() / (g * g)[:_NEAR].sum()))
        if curve.is_near(factor * g):
            return (op,) if factor == 1 else (op, f"mul({written(factor)})")
    bent = _bent(curve)
    if bent is not None:
        return bent
    at_one = float(y[_ONE])  # of x * sigmoid(k * x)
    if 0 < at_one < 1:
        k = _rounded(math.log(at_one / (1 - at_one)))
        if curve.is_near(x * torch.sigmoid(k * x)):
            return (f"mul({written(k)})", "silu", f"div({written(k)})")
    return None


def _bent(curve: _Curve) -> tuple[str, ...] | None:
    """The ops of two lines that meet at 0, of a line between two limits, and of elu."""
    x, y = _points(), curve.y
    right, left = _rounded(float(y[_ONE])), _rounded(-float(y[2 * _ZERO - _ONE]))
    if right != 0 and curve.is_near(torch.where(x > 0, right * x, left * x)):
        scale = () if right == 1 else (f"mul({written(right)})",)
        return (f"leaky_relu({written(_rounded(left / right))})", *scale)
    least, most = float(y.min()), float(y.max())
    if curve.is_near(x.clamp(least, most)):
        limits = (("min", least, float(x.min())), ("max", most, float(x.max())))
        words = [f"{word}={written(_rounded(limit))}" for word, limit, end in limits if limit != end]
        return (f"clamp({', '.join(words)})",)
    alpha = _rounded(-least)
    if alpha > 0 and curve.is_near(torch.where(x > 0, x, alpha * torch.expm1(x))):
        return (f"elu({written(alpha)})",)
    return None


def _step(running: Running, nodes: list[Node], end: Node, shared: bool = False) -> Step | None:
    """The step from the value to the end of a region."""
    through = closed(running, nodes, end, shared)
    if through is None:
        return None
    try:
        curve = _computed(running, [*through, end])
    except (RuntimeError, TypeError, ValueError):
        return None
    ops = None if curve is None else _ops(curve)
    return None if ops is None else Step(end, ops, through=tuple(through))


def region(running: Running) -> Step | None:
    """The step of the nearest end of such a region that the vocabulary has."""
    nodes = _region(running)
    return next(filter(None, (_step(running, nodes, end) for end in nodes)), None)


def region_to(end: Node) -> tuple[Node, Step] | None:
    """The value from which such a region leads to a node, which others may use too; and the step from there."""
    sources = [end]
    for node in sources:  # it grows: arguments of arguments, nearest first
        if name_of(node) in POINTWISE and not writes_in_place(node):
            sources += [value for value in node.all_input_nodes if value not in sources]
        if len(sources) > _MOST_NODES:
            break
    for source in sources[1:]:
        tensor = tensor_of(source)
        if tensor is None:
            continue
        running = Running(source, each_of(tensor.dim()), tensor.dim())
        nodes = _region(running)
        step = _step(running, nodes, end, shared=True) if end in nodes else None
        if step is not None:
            return source, step
    return None
