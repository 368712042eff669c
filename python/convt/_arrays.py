# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: NumPy's, and those of any library that speaks DLPack, on the host or on a GPU.

A view is what the library needs to know of an array. Arrays that are read may have any strides: on the host they are
copied where their elements do not lie as the plan takes them. Arrays that are written must lie right.
"""

from __future__ import annotations

import ctypes as c
import functools
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from ._library import LAYOUTS, ConvtError, TensorInfo

BFLOAT16_BITS = "u16"  # the view's dtype of a uint16 array, which a plan of bf16 takes for bfloat16
_ORDER = np.dtype("f4").str[0]  # of the machine's bytes: "<" or ">"
# By NumPy's typestr. ml_dtypes' bfloat16 shares its own with other types.
_FROM_NUMPY = {f"{_ORDER}{code}": name for code, name in
               (("f4", "f32"), ("f8", "f64"), ("f2", "f16"), ("u2", BFLOAT16_BITS))}
_ITEM_SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, BFLOAT16_BITS: 2}
_STORAGE: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bf16": np.dtype("u2")
}
_ROW_MAJOR = LAYOUTS[0]


class View(NamedTuple):
    """What the library needs to know of an array, and the object that keeps its memory alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None where the array is row-major without gaps
    dtype: str
    device: int | None  # a GPU's number; None: the host
    owner: Any
    writable: bool


def look(array: Any, name: str, stream: int = 0) -> View:
    """The view of an array; `name` stands in messages. Work on a GPU will be enqueued on that stream."""
    if isinstance(array, np.ndarray):
        return _look_numpy(array, name)
    if hasattr(array, "__dlpack__"):
        return _look_dlpack(array, name, stream)
    if hasattr(array, "__array__"):
        return _look_numpy(np.asarray(array), name)
    raise TypeError(f"{name}: expected a NumPy array or one that has __dlpack__ (got {type(array).__name__})")


def _look_numpy(array: np.ndarray[Any, Any], name: str) -> View:
    # One call of NumPy's own code: some ten times cheaper than array.ctypes, flags and strides where caches are cold.
    interface = array.__array_interface__
    dtype = _FROM_NUMPY.get(interface["typestr"])
    pointer, frozen = interface["data"]
    if dtype is None and array.dtype.name == "bfloat16":
        dtype = "bf16"
    strides = interface["strides"]
    # A field of records may begin aligned, and lie apart by no whole number of elements.
    if dtype is None or pointer % _ITEM_SIZES[dtype] or (strides and any(s % _ITEM_SIZES[dtype] for s in strides)):
        return _look_numpy(_native(array, name), name)._replace(writable=False)  # what is written to a copy is lost
    if strides is not None:
        strides = tuple(stride // array.itemsize for stride in strides)
    return View(pointer, interface["shape"], strides, dtype, None, array, not frozen)


def _native(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """A copy that is aligned and in the machine's byte order."""
    native = array.dtype.newbyteorder("=")
    if native.str not in _FROM_NUMPY and native.name != "bfloat16":
        raise _bad_dtype(name, array.dtype)
    return array.astype(native, copy=True, order="C")


def _bad_dtype(name: str, dtype: Any) -> ConvtError:
    return ConvtError(f"{name}: element type {dtype} is none of float32, float64, float16 and bfloat16")


# ---- DLPack: https://dmlc.github.io/dlpack/latest/c_api.html


class _DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class _DLManagedTensorVersioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("manager_context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", _DLTensor),
    ]


_HOST, _CUDA = {1: "CPU", 3: "CUDA's pinned memory"}, {2: "CUDA", 13: "CUDA's managed memory"}
_READ_ONLY = 1
_LEGACY_DEFAULT_STREAM = 1
_FROM_DLPACK = {(2, 32): "f32", (2, 64): "f64", (2, 16): "f16", (4, 16): "bf16", (1, 16): BFLOAT16_BITS}

_capsule_is = c.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = c.c_int, [c.py_object, c.c_char_p]
_capsule_pointer = c.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


def _look_dlpack(array: Any, name: str, stream: int) -> View:
    kind = int(array.__dlpack_device__()[0])
    if kind not in _HOST and kind not in _CUDA:
        raise ConvtError(f"{name}: is neither in the host's memory nor in a CUDA device's (DLPack device type {kind})")
    arguments = {"stream": stream or _LEGACY_DEFAULT_STREAM} if kind in _CUDA else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:  # a producer older than DLPack 1.0
        capsule = array.__dlpack__(**arguments)
    # The capsule is held, not consumed: when it goes, it gives the array back to its producer.
    writable = True
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = _DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise ConvtError(f"{name}: speaks DLPack {managed.major}, and convt 1")
        writable = not managed.flags & _READ_ONLY
        tensor = managed.tensor
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    dtype = _FROM_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise _bad_dtype(name, getattr(array, "dtype", f"with DLPack's code {tensor.code}"))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if strides is not None and _lies(shape, strides, dense_strides(shape, _ROW_MAJOR)):
        strides = None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return View(pointer, shape, strides, dtype, tensor.device_id if kind in _CUDA else None, (array, capsule), writable)


# ---- layouts


@functools.lru_cache(1024)
def dense_strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides, in elements, of an array without gaps; its shape is (N, C, ...) whatever the layout."""
    order = list(range(len(shape)))
    if layout != _ROW_MAJOR:
        order.append(order.pop(1))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _lies(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether both are the same places; along an axis of one element, a stride means nothing."""
    return 0 in shape or all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=True))


def lies(view: View, strides: tuple[int, ...]) -> bool:
    """Whether the view's elements lie as those strides say."""
    own = dense_strides(view.shape, _ROW_MAJOR) if view.strides is None else view.strides
    return own == strides or _lies(view.shape, own, strides)


def within(view: View, layout: str) -> int | None:
    """The channels of an array in that layout, without gaps, of which the view's channels are a range.

    0 where they are all, None where there is no such array. The view has axes (N, C, ...).
    """
    if (view.strides is None and layout == _ROW_MAJOR) or 0 in view.shape:
        return 0
    shape, channels = view.shape, view.shape[1]
    strides = dense_strides(shape, _ROW_MAJOR) if view.strides is None else view.strides
    if layout == _ROW_MAJOR:
        wide = strides[0] // math.prod(shape[2:]) if shape[0] > 1 else channels
    else:  # the innermost pixels, or images, that are more than one are that far apart
        axes = (*range(len(shape) - 1, 1, -1), 0)
        wide = next((strides[axis] for axis in axes if shape[axis] > 1), channels)
    if wide < channels or not lies(view, dense_strides((shape[0], wide, *shape[2:]), layout)):
        return None
    return 0 if wide == channels else wide


def place_of(view: View) -> tuple[str, int]:
    """The layout in which an input is best read, and within(): its own, or else those of the copy to be made."""
    for layout in LAYOUTS:
        wide = within(view, layout)
        if wide is not None:
            return layout, wide
    return _ROW_MAJOR, 0


def laid(view: View, strides: tuple[int, ...], name: str) -> View:
    """The view, or where its elements do not lie as those strides say that of a copy."""
    if lies(view, strides):
        return view
    if view.device is not None:
        raise ConvtError(f"{name}: must have strides {strides}: arrays on a GPU are not copied (got {described(view)})")
    array = _as_numpy(view)
    size, steps = array.itemsize, [stride * array.itemsize for stride in strides]
    end = sum((count - 1) * step for count, step in zip(view.shape, steps, strict=True)) + size
    copy: np.ndarray[Any, Any] = np.ndarray(view.shape, array.dtype, np.empty(end, np.uint8), strides=steps)
    copy[...] = array
    return view._replace(pointer=copy.ctypes.data, strides=strides, owner=copy, writable=False)


def described(view: View) -> str:
    """For messages."""
    return f"shape {view.shape} with strides {view.strides or dense_strides(view.shape, _ROW_MAJOR)}"


def _as_numpy(view: View) -> np.ndarray[Any, Any]:
    if isinstance(view.owner, np.ndarray):
        # The view may be of one image, with an axis that its owner lacks.
        return np.reshape(view.owner, view.shape)
    storage = _STORAGE.get(view.dtype, np.dtype("u2"))
    strides = view.strides or dense_strides(view.shape, _ROW_MAJOR)
    ends = [(size - 1) * stride for size, stride in zip(view.shape, strides, strict=True)]
    first, last = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
    item = storage.itemsize
    memory: Any = (c.c_char * ((last - first + 1) * item)).from_address(view.pointer + first * item)
    steps = [stride * item for stride in strides]
    array: np.ndarray[Any, Any] = np.ndarray(view.shape, storage, memory, -first * item, steps)
    return array


# ---- results


def check_output(view: View, info: TensorInfo) -> None:
    """Refuses an array that cannot take the result."""
    if view.shape != info.shape or not same_dtype(view.dtype, info.dtype):
        raise ConvtError(f"out: expected {info.dtype} of shape {info.shape} (got {view.dtype} of shape {view.shape})")
    if not view.writable:
        raise ConvtError("out: must be writable, aligned, and in the machine's byte order")
    if not lies(view, info.strides):
        wide = _wide(info)
        way = "without gaps" if wide == info.shape[1] else f"as a range of {wide} channels, with strides {info.strides}"
        raise ConvtError(f"out: must be {info.layout} {way} (got {described(view)})")


def same_dtype(given: str, wanted: str) -> bool:
    return given == wanted or (given == BFLOAT16_BITS and wanted == "bf16")


def _wide(info: TensorInfo) -> int:
    """The channels of the array that holds the tensor: its own, or more where those are a range."""
    return info.strides[0] // math.prod(info.shape[2:])


def empty_like(array: Any, view: View, info: TensorInfo) -> Any:
    """A new array for the result, of the same library, element type and device as `array`, whose view is given."""
    shape, channels = info.shape, _wide(info)
    first = info.layout == _ROW_MAJOR
    stored = (shape[0], channels, *shape[2:]) if first else (shape[0], *shape[2:], channels)
    library: Any = np
    if isinstance(array, np.ndarray):
        result = np.empty(stored, view.owner.dtype)
    else:
        library = _library_of(array)
        if library is not None:
            result = library.empty(stored, dtype=array.dtype, device=array.device)
        elif view.device is not None:
            raise ConvtError(f"out: must be given, since {type(array).__name__}'s library is not known to make arrays")
        else:
            library, result = np, np.empty(stored, _host_dtype(view.dtype))
    if not first:
        result = library.moveaxis(result, -1, 1)
    return result if channels == shape[1] else result[:, : shape[1]]


def _library_of(array: Any) -> Any:
    """The library whose arrays can be made empty and then written: PyTorch, CuPy. Others get NumPy's."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules.get(name) if name in ("torch", "cupy") else None


def _host_dtype(dtype: str) -> Any:
    if dtype != "bf16":
        return _STORAGE.get(dtype, np.dtype("u2"))
    try:
        import ml_dtypes
    except ImportError:
        return _STORAGE["bf16"]
    return np.dtype(ml_dtypes.bfloat16)
