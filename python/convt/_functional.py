# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of arrays, with the arguments of torch.nn.functional, and operations before and behind."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Union

from . import _arrays
from ._arrays import View
from ._library import DTYPES, LAYOUTS, PRECISIONS, ConvtError, Problem
from ._op import Array, Op
from ._plan import Plan

Sizes = Union[int, Sequence[int]]
Operations = Union[str, Op, Iterable[Union[str, Op]]]

_MAX_SIZE = 2**63
_KEPT_PLANS = 256  # a plan is made in some 0.1 ms and takes some 10 kB


def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    prologue: Operations = (),
    epilogue: Operations = (),
    operands: Sequence[Array] = (),
    precision: str | None = None,
    out: Any = None,
) -> Any:
    """A transposed convolution over (N, C, W), and operations before and behind; see conv_transpose2d().

    >>> x = np.array([[[1, 2, 3]]], np.float32)
    >>> w = np.array([[[1, 10]]], np.float32)
    >>> convt.conv_transpose1d(x, w, stride=2)
    array([[[ 1., 10.,  2., 20.,  3., 30.]]], dtype=float32)
    """
    sizes = stride, padding, output_padding, dilation
    return _convolve(1, input, weight, bias, sizes, groups, prologue, epilogue, operands, precision, out)


def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    prologue: Operations = (),
    epilogue: Operations = (),
    operands: Sequence[Array] = (),
    precision: str | None = None,
    out: Any = None,
) -> Any:
    """A transposed convolution over (N, C, H, W), and operations before and behind.

    Arguments are those of torch.nn.functional.conv_transpose2d; the input may also be (C, H, W). `epilogue` is one
    operation or several, objects of convt.ops or text, in the order in which they run. Operations that are text take
    their tensors from `operands`.

    >>> x = np.ones((1, 2, 4, 4), np.float32)
    >>> w = np.ones((2, 8, 2, 2), np.float32)
    >>> skip = np.full((1, 8, 8, 8), -1.5, np.float32)
    >>> y = convt.conv_transpose2d(x, w, stride=2, epilogue=[convt.ops.add(skip), "relu"])
    >>> y.shape, float(y[0, 0, 0, 0])
    ((1, 8, 8, 8), 0.5)
    >>> convt.conv_transpose2d(x, w, stride=2, epilogue="global_avg_pool | max").shape
    (1, 1, 1, 1)

    `prologue` is the same for the input, as it is read: pointwise operations, those with a number or one value per
    input channel, and batch_norm. What lies outside of the image is zero behind it, as it is without. Of `operands`,
    those of the prologue come first.

    >>> y = convt.conv_transpose2d(x, w, stride=2, prologue=[convt.ops.mul(np.array([1, 2], np.float32)), "add(0.5)"])
    >>> float(y[0, 0, 0, 0])
    4.0

    Arrays are float32, float64, float16 or bfloat16, all of the same type, but operands may be float32 always.
    `precision` is "ieee" (the default), or "tf32": float32 products may then be computed in TF32. An input that is
    channels-last in memory gives a result that is. Contiguous and channels-last arrays, and ranges of their channels,
    are read as they are; other strides are copied. `out` takes the result, and must lie in one of those ways: this
    writes 8 of 12 channels, and leaves the others alone.

    >>> joined = np.zeros((1, 12, 8, 8), np.float32)
    >>> y = convt.conv_transpose2d(x, w, stride=2, out=joined[:, 4:])
    >>> float(joined[0, 3].max()), float(joined[0, 4].max())
    (0.0, 2.0)
    """
    sizes = stride, padding, output_padding, dilation
    return _convolve(2, input, weight, bias, sizes, groups, prologue, epilogue, operands, precision, out)


def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    prologue: Operations = (),
    epilogue: Operations = (),
    operands: Sequence[Array] = (),
    precision: str | None = None,
    out: Any = None,
) -> Any:
    """A transposed convolution over (N, C, D, H, W), and operations before and behind; see conv_transpose2d().

    >>> x, w = np.ones((1, 2, 3, 4, 4), np.float32), np.ones((2, 8, 2, 2, 2), np.float32)
    >>> bias = np.zeros(8, np.float32)
    >>> y = convt.conv_transpose3d(x, w, bias, stride=2, epilogue=[convt.ops.max_pool(2), convt.ops.gelu()])
    >>> y.shape
    (1, 8, 3, 4, 4)
    """
    sizes = stride, padding, output_padding, dilation
    return _convolve(3, input, weight, bias, sizes, groups, prologue, epilogue, operands, precision, out)


def _convolve(
    dims: int,
    input: Array,
    weight: Array,
    bias: Array | None,
    sizes: tuple[Sizes, Sizes, Sizes, Sizes],
    groups: int,
    prologue: Operations,
    epilogue: Operations,
    operands: Sequence[Array],
    precision: str | None,
    out: Any,
) -> Any:
    x, w = _arrays.look(input, "input"), _arrays.look(weight, "weight")
    single = len(x.shape) == dims + 1  # one image, without the batch's axis
    if single:
        x = _batched(x)
    _check(dims, x, w)
    before, chain = _chain("prologue", prologue, x.dtype), _chain("epilogue", epilogue, x.dtype, bias)
    layout, input_within = _arrays.place_of(x)
    # The result lies as its input does; a single channel lies either way.
    output_layout, output_within = layout if x.shape[1] > 1 else LAYOUTS[0], 0
    y = None
    if out is not None:
        y = _arrays.look(out, "out")
        if single:
            y = _batched(y)
        if len(y.shape) == len(x.shape):
            output_layout, output_within = _output_place(y, output_layout)
    stride, padding, output_padding, dilation = sizes
    plan = _plan(
        dims, x.dtype, layout, input_within, output_layout, output_within, precision or "ieee", x.device, x.shape,
        w.shape, groups,
        stride if type(stride) is int else _sizes(dims, "stride", stride),
        padding if type(padding) is int else _sizes(dims, "padding", padding),
        output_padding if type(output_padding) is int else _sizes(dims, "output_padding", output_padding),
        dilation if type(dilation) is int else _sizes(dims, "dilation", dilation), before.text, chain.text)
    x, w = _arrays.laid(x, plan.input.strides, "input"), _arrays.laid(w, plan.weight.strides, "weight")
    given = _operands(plan, before, chain, operands)
    result = plan._run(input, x, w, given, out, y, 0)
    return result[0] if single and out is None else result


def _batched(view: View) -> View:
    strides = None if view.strides is None else (0, *view.strides)
    return view._replace(shape=(1, *view.shape), strides=strides)


def _check(dims: int, x: View, w: View) -> None:
    """What a plan cannot: it is made from the arrays' own shapes."""
    if len(x.shape) != dims + 2:
        axes = ", ".join("DHW"[3 - dims :])
        raise ConvtError(f"input: expected shape (N, C, {axes}) or (C, {axes}) (got {x.shape})")
    if len(w.shape) != dims + 2:
        raise ConvtError(f"weight: expected {dims + 2} axes, in_channels, out_channels/groups and the kernel's sizes "
                         f"(got shape {w.shape})")
    if x.dtype == _arrays.BFLOAT16_BITS:
        raise ConvtError("input: element type uint16 is none of float32, float64, float16 and bfloat16; for bfloat16 "
                         "kept as uint16, use a Plan")
    if w.dtype != x.dtype:
        raise ConvtError(f"weight: expected {x.dtype} elements, as the input has (got {w.dtype})")
    if w.shape[0] != x.shape[1]:
        raise ConvtError(f"weight: expected {x.shape[1]} in_channels, as the input has (got {w.shape[0]})")


def _output_place(y: View, preferred: str) -> tuple[str, int]:
    """The layout of `out`, and the channels of the array of which it is a range, or 0."""
    for layout in (preferred, LAYOUTS[1 - LAYOUTS.index(preferred)]):
        wide = _arrays.within(y, layout)
        if wide is not None:
            return layout, wide
    raise ConvtError("out: must be contiguous, channels-last without gaps, or a range of the channels of such an array "
                     f"(got {_arrays.described(y)})")


def _sizes(dims: int, name: str, value: Sizes) -> tuple[int, ...]:
    """One size per axis. What sizes are legal is the library's to say, but that they are sizes."""
    if type(value) is int:
        sizes: tuple[int, ...] = (value,) * dims
    elif hasattr(value, "__iter__"):
        sizes = tuple(value)
        if len(sizes) == 1:
            sizes *= dims
        if len(sizes) != dims:
            raise ConvtError(f"{name}: expected one size or {dims} (got {len(sizes)})")
    else:
        sizes = (operator.index(value),) * dims
    for size in sizes:
        if type(size) is not int:
            return _sizes(dims, name, [operator.index(size) for size in sizes])
        if not 0 <= size < _MAX_SIZE:
            raise ConvtError(f"{name}: must be at least 0 and below 2^63 (got {size})")
    return sizes


@functools.lru_cache(_KEPT_PLANS)
def _plan(
    dims: int,
    dtype: str,
    input_layout: str,
    input_within: int,
    output_layout: str,
    output_within: int,
    precision: str,
    device: int | None,
    input: tuple[int, ...],
    weight: tuple[int, ...],
    groups: int,
    stride: int | tuple[int, ...],
    padding: int | tuple[int, ...],
    output_padding: int | tuple[int, ...],
    dilation: int | tuple[int, ...],
    prologue: str,
    chain: str,
) -> Plan:
    if precision not in PRECISIONS:
        raise ConvtError(f"precision: expected one of {', '.join(PRECISIONS)} (got {precision})")
    (groups,) = _sizes(1, "groups", groups)
    problem = Problem(
        dims=dims, dtype=DTYPES.index(dtype), input_layout=LAYOUTS.index(input_layout),
        output_layout=LAYOUTS.index(output_layout), precision=PRECISIONS.index(precision), batch_size=input[0],
        in_channels=input[1], out_channels=weight[1] * max(groups, 1), groups=groups, input=input[2:], kernel=weight[2:],
        stride=_sizes(dims, "stride", stride), padding=_sizes(dims, "padding", padding),
        output_padding=_sizes(dims, "output_padding", output_padding), dilation=_sizes(dims, "dilation", dilation),
        chain=chain.encode(), prologue=prologue.encode(), input_within=input_within, output_within=output_within)
    where = "cpu" if device is None else f"cuda:{device}"
    try:
        return Plan(problem, device=where)
    except ConvtError as error:
        if not output_within or error.status != "invalid_argument":
            raise
    # If it was the range that cannot hold the result, `out` has another shape: the plan without it says which it is.
    problem.output_within = 0
    return Plan(problem, device=where)


# ---- operations


class _Chain(NamedTuple):
    text: str
    carried: dict[int, Iterator[Array]]  # the operands that came with the operation at that position


_NOTHING: dict[int, Iterator[Array]] = {}
_EMPTY = _Chain("", _NOTHING)


def _chain(name: str, operations: Operations, dtype: str, bias: Array | None = None) -> _Chain:
    """The operations of the argument of that name, behind a bias if there is one."""
    if bias is None:
        if isinstance(operations, str):
            return _Chain(operations, _NOTHING)
        if type(operations) is tuple and not operations:
            return _EMPTY
    parts: list[str | Op] = [] if bias is None else [Op("bias", (), (bias,), follows=True)]
    parts.extend((operations,) if isinstance(operations, (str, Op)) else operations)
    texts: list[str] = []
    carried = {}
    position = 0
    for part in parts:
        if isinstance(part, Op):
            if part.operands:
                carried[position] = iter(part.operands)
            texts.append(part.text_for(dtype == "f32" or not part.operands or not _is_f32(part.operands[0])))
            position += 1
        elif isinstance(part, str):
            if part.strip():
                texts.append(part)
                position += part.count("|") + 1
        else:
            raise TypeError(f"{name}: expected operations of convt.ops or text (got {type(part).__name__})")
    return _Chain(" | ".join(texts), carried)


def _is_f32(array: Array) -> bool:
    return _arrays.look(array, "operand").dtype == "f32"


def _operands(plan: Plan, prologue: _Chain, chain: _Chain, operands: Sequence[Array]) -> list[View]:
    """Views of the plan's operands: those that came with an operation, and for the others those given."""
    if not plan.operands and not operands:
        return []
    rest = iter(operands)
    views, used = [], 0
    for info in plan.operands:
        source = (prologue if info.name.startswith("prologue.") else chain).carried.get(info.stage)
        array = next(rest if source is None else source, None)
        if array is None:
            raise ConvtError(f"operands: {info.name} is missing: give it to its operation of convt.ops, or here")
        used += source is None
        views.append(plan._read(array, info, info.name, 0))
    if used != len(operands):
        raise ConvtError(f"operands: expected {used}, those of operations that are text (got {len(operands)})")
    return views
