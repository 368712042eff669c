# SPDX-License-Identifier: Apache-2.0
"""The library as tests and benchmarks use it, through the package's own binding of the C ABI: by address, so that
nothing is copied or checked on the way. Arrays are NumPy's or PyTorch's, on the host or on a GPU, in memory order;
bfloat16 elements of NumPy's are stored as uint16."""

import ctypes as c
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.setdefault("CONVT_LIBRARY", str(ROOT / "build/release/libconvt.so"))).resolve()
sys.path.insert(0, str(ROOT / "python"))

import convt  # noqa: E402
from convt._library import DTYPES, LAYOUTS, PRECISIONS, Problem, Tensors, check, lib  # noqa: E402,F401
from convt._library import describe_named_problems as named_problems  # noqa: E402,F401
from convt._library import describe_ops as ops  # noqa: E402,F401

# The command beside the library, whose `verify --list` makes random cases.
COMMAND = Path(os.environ.get("CONVT_COMMAND", LIBRARY.parent / "convt"))

ConvtError = convt.ConvtError
INVALID_ARGUMENT = "invalid_argument"
STORAGE = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bf16": np.dtype("u2")}


def last_error():
    return lib.convt_last_error().decode()


def address(array):
    if array is None:
        return 0
    if hasattr(array, "data_ptr"):
        assert array.is_contiguous()
        return array.data_ptr()
    assert array.flags.c_contiguous
    return array.ctypes.data


class Plan(convt.Plan):
    """A plan from the text of a case or from a Problem, for the host or for the GPU of that number."""

    def __init__(self, what, engine=None, gpu=None):
        super().__init__(what, device="cpu" if gpu is None else f"cuda:{gpu}", engine=engine)

    def pack_kernel(self, kernel):
        self.pack_pointer(address(kernel))

    def bind(self, input, kernel, operands, output, workspace=None, stream=None):
        """A function that executes the plan on these tensors, at the cost of the C call; the caller keeps them alive."""
        pointers = (c.c_void_p * max(len(operands), 1))(*map(address, operands))
        size = 0 if workspace is None else workspace.nbytes
        tensors = Tensors(c.sizeof(Tensors), address(input), address(kernel), address(output), pointers, len(operands),
                          address(workspace), size, stream)
        execute, plan, reference = lib.convt_plan_execute, self._native, c.byref(tensors)
        return lambda: check(execute(plan.pointer, reference))

    def execute(self, input, kernel, operands, output, workspace=None):
        self.bind(input, kernel, operands, output, workspace)()


def entry_point(slug, suffix, pointers, sizes, scalars=0):
    """convt_<slug>_<suffix>, taking that many pointers, then sizes, then doubles; a trailing shape array for
    suffix "output_shape"."""
    function = getattr(lib, f"convt_{slug.replace('-', '_')}_{suffix}")
    function.restype = c.c_int
    shape = [c.c_void_p] if suffix == "output_shape" else []
    function.argtypes = [c.c_void_p] * pointers + [c.c_size_t] * sizes + [c.c_double] * scalars + shape
    return function
