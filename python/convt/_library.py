# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libconvt.so, and declares its C ABI (include/convt/convt.h) to ctypes."""

from __future__ import annotations

import ctypes as c
import os
from pathlib import Path
from typing import Any, NamedTuple

OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE_ERROR, INTERNAL_ERROR = range(6)
DTYPES = ("f32", "f64", "f16", "bf16")  # position = convt_dtype
LAYOUTS = ("channels_first", "channels_last")  # position = convt_layout
PRECISIONS = ("ieee", "tf32")  # position = convt_float32_precision
DEVICES = ("cpu", "cuda")  # position = convt_device

Axes = c.c_size_t * 3


class Problem(c.Structure):
    """convt_problem."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("dims", c.c_size_t),
        ("dtype", c.c_int),
        ("input_layout", c.c_int),
        ("output_layout", c.c_int),
        ("precision", c.c_int),
        ("batch_size", c.c_size_t),
        ("in_channels", c.c_size_t),
        ("out_channels", c.c_size_t),
        ("groups", c.c_size_t),
        ("input", Axes),
        ("kernel", Axes),
        ("stride", Axes),
        ("padding", Axes),
        ("output_padding", Axes),
        ("dilation", Axes),
        ("chain", c.c_char_p),
        ("prologue", c.c_char_p),
        ("input_within", c.c_size_t),
        ("output_within", c.c_size_t),
    ]

    def __init__(self, **fields: Any) -> None:
        """CONVT_PROBLEM_INIT, then the fields given; axes may be any sequence of up to three sizes."""
        defaults = {
            "struct_size": c.sizeof(Problem),
            "batch_size": 1,
            "groups": 1,
            "stride": (1, 1, 1),
            "dilation": (1, 1, 1),
        }
        super().__init__(
            **{
                name: Axes(*value) if isinstance(value, (tuple, list)) else value
                for name, value in {**defaults, **fields}.items()
            }
        )


class PlanOptions(c.Structure):
    """convt_plan_options."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("device", c.c_int),
        ("device_index", c.c_int),
        ("engine", c.c_char_p),
        ("workspace_limit", c.c_size_t),
    ]


class _TensorInfo(c.Structure):
    _fields_ = [
        ("name", c.c_char * 48),
        ("stage", c.c_size_t),
        ("dtype", c.c_int),
        ("layout", c.c_int),
        ("rank", c.c_size_t),
        ("shape", c.c_size_t * 5),
        ("bytes", c.c_size_t),
    ]


class TensorInfo(NamedTuple):
    """One of a plan's tensors. Whatever the layout, the shape of input and output is (N, C, [D, [H,]] W)."""

    name: str  #: "input", "kernel", "output", or for example "layer_norm.weight", "prologue.batch_norm.mean"
    shape: tuple[int, ...]
    dtype: str  #: "f32", "f64", "f16" or "bf16"
    layout: str  #: "channels_first" or "channels_last"; small operands are row-major and say "channels_first"
    bytes: int  #: from the first element to behind the last
    stage: int  #: for an operand, the position in the prologue or chain of the operation that takes it
    strides: tuple[int, ...]  #: in elements; more than the shape's own where channels are a range of an array's


class Tensors(c.Structure):
    """convt_tensors."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("input", c.c_void_p),
        ("kernel", c.c_void_p),
        ("output", c.c_void_p),
        ("operands", c.POINTER(c.c_void_p)),
        ("operand_count", c.c_size_t),
        ("workspace", c.c_void_p),
        ("workspace_size", c.c_size_t),
        ("stream", c.c_void_p),
        ("input_bytes", c.c_size_t),
        ("kernel_bytes", c.c_size_t),
        ("output_bytes", c.c_size_t),
        ("operand_bytes", c.POINTER(c.c_size_t)),
    ]


class _OpDescription(c.Structure):
    _fields_ = [(name, c.c_char_p) for name in ("name", "signature", "about", "torch", "examples")]


class _NamedProblemDescription(c.Structure):
    _fields_ = [(name, c.c_char_p) for name in ("slug", "parameters", "chain", "benchmark_case", "demo_case")]


class ConvtError(RuntimeError):
    """A call that failed: the library's message says which argument broke which rule. Nothing was written.

    `status` is its kind: "invalid_argument", "unsupported", "out_of_memory", "device_error" or "internal_error".
    """

    def __init__(self, message: str, status: str = "invalid_argument") -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


def _find() -> Path:
    given = os.environ.get("CONVT_LIBRARY")
    path = Path(given) if given else Path(__file__).with_name("libconvt.so")
    if path.is_file():
        return path.resolve()
    if given:
        raise ImportError(f"the environment variable CONVT_LIBRARY names {given}, which is no file")
    raise ImportError(
        f"{path} is missing: install the package (pip install .), or name a libconvt.so in the environment variable "
        "CONVT_LIBRARY"
    )


def _load(path: Path) -> c.CDLL:
    library = c.CDLL(str(path))
    plan, info, size, text = c.c_void_p, c.POINTER(_TensorInfo), c.c_size_t, c.c_char_p
    for name, result, arguments in (
        ("convt_status_name", text, [c.c_int]),
        ("convt_last_error", text, []),
        ("convt_version", text, []),
        ("convt_set_num_threads", c.c_int, [size]),
        ("convt_get_num_threads", size, []),
        ("convt_set_float32_precision", c.c_int, [c.c_int]),
        ("convt_get_float32_precision", c.c_int, []),
        ("convt_set_stream", c.c_int, [c.c_void_p]),
        ("convt_get_stream", c.c_void_p, []),
        ("convt_plan_create", c.c_int, [c.POINTER(plan), c.POINTER(Problem), c.POINTER(PlanOptions)]),
        ("convt_plan_create_from_text", c.c_int, [c.POINTER(plan), text, c.POINTER(PlanOptions)]),
        ("convt_plan_destroy", None, [plan]),
        ("convt_plan_problem", c.c_int, [plan, c.POINTER(Problem)]),
        ("convt_plan_input_info", c.c_int, [plan, info]),
        ("convt_plan_kernel_info", c.c_int, [plan, info]),
        ("convt_plan_output_info", c.c_int, [plan, info]),
        ("convt_plan_input_strides", c.c_int, [plan, c.POINTER(c.c_size_t)]),
        ("convt_plan_output_strides", c.c_int, [plan, c.POINTER(c.c_size_t)]),
        ("convt_plan_operand_count", size, [plan]),
        ("convt_plan_operand_info", c.c_int, [plan, size, info]),
        ("convt_plan_workspace_size", c.c_int, [plan, c.POINTER(size)]),
        ("convt_plan_pack_kernel", c.c_int, [plan, c.c_void_p, c.c_void_p]),
        ("convt_plan_execute", c.c_int, [plan, c.POINTER(Tensors)]),
        ("convt_plan_text", text, [plan]),
        ("convt_plan_explain", text, [plan]),
        ("convt_plan_engine", text, [plan]),
        ("convt_plan_products", c.c_int, [plan, c.POINTER(c.c_double), c.POINTER(c.c_double)]),
        ("convt_plan_predicted_seconds", c.c_int, [plan, c.POINTER(c.c_double)]),
        ("convt_op_count", size, []),
        ("convt_op_describe", c.c_int, [size, c.POINTER(_OpDescription)]),
        ("convt_named_problem_count", size, []),
        ("convt_named_problem_describe", c.c_int, [size, c.POINTER(_NamedProblemDescription)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


#: The file that is loaded.
PATH = _find()
#: The library, its functions declared; call them through check() where they return a status.
lib = _load(PATH)


def check(status: int) -> None:
    """Raises ConvtError with the library's message unless the status is CONVT_OK."""
    if status != OK:
        raise ConvtError(lib.convt_last_error().decode(), lib.convt_status_name(status).decode())


def text_of(value: bytes | None) -> str:
    """A text that the library returned; it returns NULL only when memory runs out."""
    if value is None:
        raise ConvtError(lib.convt_last_error().decode(), "out_of_memory")
    return value.decode()


def _describe_all(count: Any, describe: Any, kind: Any) -> list[dict[str, str]]:
    rows = []
    for i in range(count()):
        row = kind()
        check(describe(i, c.byref(row)))
        rows.append({name: getattr(row, name).decode() for name, _ in kind._fields_})
    return rows


def describe_ops() -> list[dict[str, str]]:
    """The vocabulary of chains: dictionaries with the keys of convt_op_description."""
    return _describe_all(lib.convt_op_count, lib.convt_op_describe, _OpDescription)


def describe_named_problems() -> list[dict[str, str]]:
    """The named problems: dictionaries with the keys of convt_named_problem_description."""
    return _describe_all(lib.convt_named_problem_count, lib.convt_named_problem_describe, _NamedProblemDescription)


def set_num_threads(num_threads: int) -> None:
    """Sets how many threads one call may use on the CPU, for the whole process; 0 means every CPU there is.

    Results do not depend on it.

    >>> convt.set_num_threads(2)
    >>> convt.get_num_threads()
    2
    >>> convt.set_num_threads(0)
    """
    if num_threads < 0:
        raise ConvtError(f"num_threads: must be at least 0 (got {num_threads})")
    check(lib.convt_set_num_threads(num_threads))


def get_num_threads() -> int:
    """Returns how many threads one call may use on the CPU."""
    return int(lib.convt_get_num_threads())
