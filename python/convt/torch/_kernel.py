# SPDX-License-Identifier: Apache-2.0
"""The operators' kernels: libconvt_torch.so's where it was built, else the same in Python, slower to call."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from .. import _library
from .._plan import Plan
from . import _precision
from ._chain import parse, problem

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


# Asked by libconvt_torch.so for as long as the process lives.
_precision_source = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda index: _precision.is_tf32(index))


def load_extension() -> ctypes.CDLL | None:
    """libconvt_torch.so, bound to the libconvt that is loaded; None where it was not built or torch is too old.

    The environment variable CONVT_TORCH_LIBRARY names another file, or is "none".
    """
    given = os.environ.get("CONVT_TORCH_LIBRARY")
    path = Path(given) if given else Path(__file__).with_name("libconvt_torch.so")
    if given == "none" or not path.is_file():
        return None
    try:
        extension = ctypes.CDLL(str(path))
    except OSError:
        if given:
            raise
        return None
    if extension.convt_torch_bind(os.fsencode(_library.PATH)) != 0:
        raise ImportError(f"{path} and {_library.PATH} do not belong together")
    extension.convt_torch_set_precision_source(_precision_source)
    extension.convt_torch_set_plan_limit.argtypes = [ctypes.c_size_t]
    extension.convt_torch_plan_count.restype = ctypes.c_size_t
    return extension


def dense_strides(shape: Sequence[int], channels_last: bool) -> list[int]:
    """The strides of a tensor without gaps; sizes may be symbolic."""
    order = [*range(len(shape) - 1, -1, -1)]
    if channels_last and len(shape) > 2:
        order = [1, *(axis for axis in order if axis != 1)]
    strides, stride = [0] * len(shape), 1
    for axis in order:
        strides[axis] = stride
        # torch.sym_max rather than a comparison: an axis of unknown size keeps its size unknown.
        stride = stride * (max(shape[axis], 1) if isinstance(shape[axis], int) else shape[axis])
    return strides


def is_dense(tensor: torch.Tensor, channels_last: bool) -> bool:
    """Whether a tensor lies in memory so; strides of axes of size 1 mean nothing."""
    if tensor.numel() == 0:
        return True
    wanted = dense_strides(tensor.shape, channels_last)
    return all(
        size == 1 or have == want for size, have, want in zip(tensor.shape, tensor.stride(), wanted))


@dataclasses.dataclass(frozen=True)
class Place:
    """How a tensor lies in memory: its layout, and the channels of the tensor that it is a range of, or 0."""

    channels_last: bool
    within: int = 0

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Place | None:
        """None: in neither layout."""
        for channels_last in (False, True):
            if is_dense(tensor, channels_last):
                return cls(channels_last)
        for channels_last in (False, True):
            within = _within(tensor, channels_last)
            if within:
                return cls(channels_last, within)
        return None


def _within(tensor: torch.Tensor, channels_last: bool) -> int:
    """The channels of the tensor that this one is a range of in that layout; 0 where it is none."""
    shape, strides = tensor.shape, tensor.stride()
    # The innermost axis with more than one element that is outside the channels tells how many there are.
    outside = [*range(tensor.dim() - 1, 1, -1), 0] if channels_last else [0]
    axis = next((axis for axis in outside if shape[axis] > 1), None)
    step = 1 if channels_last else math.prod(shape[2:])
    if axis is None or strides[axis] % step or strides[axis] // step <= shape[1]:
        return 0
    within = strides[axis] // step
    wanted = dense_strides((shape[0], within, *shape[2:]), channels_last)
    return within if all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted)) else 0


def suggests_channels_last(tensor: torch.Tensor) -> bool:
    """PyTorch's suggested memory format, by which its convolutions choose their result's."""
    rank = tensor.dim()
    strides = tensor.stride()
    if rank < 4 or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(rank - 1, 1, -1), 0):
        if tensor.shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * (tensor.shape[axis] if tensor.shape[axis] > 1 else 1)
    return True


def result_is_channels_last(input: torch.Tensor, weight: torch.Tensor, layout: str) -> bool:
    """The layout of the result: the one named or, where none is, the one PyTorch's convolution would choose."""
    if layout:
        return layout == "channels_last"
    return suggests_channels_last(input) or suggests_channels_last(weight)


def _laid(tensor: torch.Tensor, channels_last: bool) -> torch.Tensor:
    if is_dense(tensor, channels_last):
        return tensor
    copy = torch.empty_strided(
        tensor.shape, dense_strides(tensor.shape, channels_last), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


class Plans:
    """Plans kept between calls; the least recently used goes first."""

    def __init__(self, limit: int = 256) -> None:
        self._plans: collections.OrderedDict[tuple[str, str, int], Plan] = collections.OrderedDict()
        self._pinned: list[Plan] = []
        self._lock = threading.Lock()
        self.limit = limit

    def get(self, text: str, device: str, packed: int, weight: torch.Tensor, stream: int) -> Plan:
        key = (text, device, packed)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
        capturing = packed != 0 and stream != 0 and torch.cuda.is_current_stream_capturing()
        if plan is None and capturing:  # packing waits for the device, which a capture forbids
            return self.get(text, device, 0, weight, stream)
        if plan is None:
            plan = Plan(text, device=device)
            if packed:
                plan.pack_pointer(weight.data_ptr(), stream)
            with self._lock:
                plan = self._plans.setdefault(key, plan)
            self.shrink()
        if capturing:
            self._pinned.append(plan)
        return plan

    def shrink(self) -> None:
        with self._lock:
            while len(self._plans) > self.limit:
                self._plans.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()

    def __len__(self) -> int:
        return len(self._plans)


plans = Plans()


def _problem(input: torch.Tensor, weight: torch.Tensor, text: str, source: Place, target: Place) -> str:
    dims = input.dim() - 2
    names = _library.LAYOUTS
    sizes = (
        f"dtype={DTYPES[input.dtype]} layout={names[source.channels_last]}->{names[target.channels_last]} "
        f"batch={input.shape[0]} channels={input.shape[1]}->{weight.shape[1] * parse(text, dims).groups} "
        f"within={source.within}->{target.within} "
        f"input={'x'.join(map(str, input.shape[2:]))} kernel={'x'.join(map(str, weight.shape[2:]))}")
    return problem(text, dims, sizes)


def _check(input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor]) -> None:
    if input.dtype not in DTYPES:
        raise _library.ConvtError("tensors are float32, float64, float16 or bfloat16, and one is none of them")
    if input.dim() not in (3, 4, 5) or weight.dim() != input.dim():
        raise _library.ConvtError(
            f"input has {input.dim()} axes and weight {weight.dim()}; both have N, C and one to three of space")
    if weight.shape[0] != input.shape[1]:
        raise _library.ConvtError(
            f"weight is for {weight.shape[0]} input channels, and input has {input.shape[1]}")
    if weight.dtype != input.dtype:
        raise _library.ConvtError(f"input is {input.dtype}, and weight is {weight.dtype}")
    if any(tensor.device != input.device for tensor in (weight, *operands)):
        raise _library.ConvtError("input, weight and operands are on different devices")


def run(
    input: torch.Tensor, weight: torch.Tensor, operands: Sequence[torch.Tensor], text: str, layout: str = "",
    packed: int = 0, out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Both operators, in Python."""
    _check(input, weight, operands)
    text = _precision.resolved(text, input.device)
    source = Place.of(input)
    x, w = input if source else _laid(input, False), _laid(weight, False)
    given_place = None if out is None else Place.of(out)
    target = given_place or Place(result_is_channels_last(input, weight, layout))
    on_device = input.device.type == "cuda"
    stream = torch.cuda.current_stream(input.device).cuda_stream if on_device else 0
    plan = plans.get(_problem(x, w, text, source or Place(False), target), str(input.device), packed, w, stream)
    if len(operands) != len(plan.operands):
        raise _library.ConvtError(f"the chain takes {len(plan.operands)} operands, and it was given {len(operands)}")
    given = []
    for index, (operand, info) in enumerate(zip(operands, plan.operands)):
        if operand.dtype != _TORCH_DTYPES[info.dtype]:
            raise _library.ConvtError(
                f"operand {index} ({info.name}) is {operand.dtype}; the chain takes {info.dtype}")
        if operand.nbytes != info.bytes or (len(info.shape) > 1 and tuple(operand.shape) != info.shape):
            raise _library.ConvtError(
                f"operand {index} ({info.name}) has shape {tuple(operand.shape)}; the chain takes {info.shape}")
        given.append(_laid(operand, info.layout == "channels_last"))
    shape = plan.output.shape
    if out is not None and (tuple(out.shape) != shape or out.dtype != input.dtype or out.device != input.device):
        raise _library.ConvtError(
            f"out: expected {input.dtype} of shape {shape} on {input.device} (got {out.dtype} of shape "
            f"{tuple(out.shape)} on {out.device})")
    result = out if given_place else None
    if result is None:
        strides = dense_strides(shape, target.channels_last)
        result = torch.empty_strided(shape, strides, dtype=input.dtype, device=input.device)
    workspace = None
    if on_device and plan.workspace_size:
        workspace = torch.empty(plan.workspace_size, dtype=torch.uint8, device=input.device)
    if not on_device and _library.get_num_threads() != torch.get_num_threads():
        _library.set_num_threads(torch.get_num_threads())
    plan.run_pointers(
        x.data_ptr(), w.data_ptr(), result.data_ptr(), [operand.data_ptr() for operand in given],
        workspace=workspace.data_ptr() if workspace is not None else 0,
        workspace_size=plan.workspace_size if workspace is not None else 0, stream=stream)
    if out is not None and result is not out:
        out.copy_(result)
        return out
    return result
