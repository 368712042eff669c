# SPDX-License-Identifier: Apache-2.0
"""The C ABI of convt, as include/convt/convt.h declares it, through ctypes. NumPy arrays are passed by address, in
memory order; bfloat16 elements are stored as uint16. PyTorch's tensors, on the host or on a GPU, are passed likewise."""

import ctypes as c
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("CONVT_LIBRARY", ROOT / "build/release/libconvt.so")).resolve()

# The command beside the library, whose `verify --list` makes random cases.
COMMAND = Path(os.environ.get("CONVT_COMMAND", LIBRARY.parent / "convt"))

OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE_ERROR, INTERNAL_ERROR = range(6)
DTYPES = ["f32", "f64", "f16", "bf16"]  # position = convt_dtype
STORAGE = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bf16": np.dtype("u2")}
LAYOUTS = ["channels_first", "channels_last"]  # position = convt_layout
PRECISIONS = ["ieee", "tf32"]  # position = convt_float32_precision

Axes = c.c_size_t * 3


class Problem(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("dims", c.c_size_t), ("dtype", c.c_int), ("input_layout", c.c_int),
                ("output_layout", c.c_int), ("precision", c.c_int), ("batch_size", c.c_size_t),
                ("in_channels", c.c_size_t), ("out_channels", c.c_size_t), ("groups", c.c_size_t), ("input", Axes),
                ("kernel", Axes), ("stride", Axes), ("padding", Axes), ("output_padding", Axes), ("dilation", Axes),
                ("chain", c.c_char_p)]

    def __init__(self, **fields):
        """CONVT_PROBLEM_INIT, then the fields given; axes may be any sequence of up to three sizes."""
        defaults = {"struct_size": c.sizeof(Problem), "batch_size": 1, "groups": 1, "stride": (1, 1, 1),
                    "dilation": (1, 1, 1)}
        fields = {**defaults, **fields}
        super().__init__(**{name: Axes(*value) if isinstance(value, (tuple, list)) else value
                            for name, value in fields.items()})


class PlanOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("device", c.c_int), ("device_index", c.c_int), ("engine", c.c_char_p),
                ("workspace_limit", c.c_size_t)]


class TensorInfo(c.Structure):
    _fields_ = [("name_", c.c_char * 48), ("stage", c.c_size_t), ("dtype_", c.c_int), ("layout_", c.c_int),
                ("rank", c.c_size_t), ("shape_", c.c_size_t * 5), ("bytes", c.c_size_t)]
    name = property(lambda self: self.name_.decode())
    dtype = property(lambda self: DTYPES[self.dtype_])
    layout = property(lambda self: LAYOUTS[self.layout_])
    shape = property(lambda self: tuple(self.shape_[:self.rank]))


class Tensors(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("input", c.c_void_p), ("kernel", c.c_void_p), ("output", c.c_void_p),
                ("operands", c.POINTER(c.c_void_p)), ("operand_count", c.c_size_t), ("workspace", c.c_void_p),
                ("workspace_size", c.c_size_t), ("stream", c.c_void_p), ("input_bytes", c.c_size_t),
                ("kernel_bytes", c.c_size_t), ("output_bytes", c.c_size_t), ("operand_bytes", c.POINTER(c.c_size_t))]


class Strings(c.Structure):
    """A struct of C strings, as the describe functions fill them."""
    __getitem__ = lambda self, name: getattr(self, name).decode()


class OpDescription(Strings):
    _fields_ = [(name, c.c_char_p) for name in ("name", "signature", "about", "torch", "examples")]


class NamedProblemDescription(Strings):
    _fields_ = [(name, c.c_char_p) for name in ("slug", "parameters", "chain", "benchmark_case", "demo_case")]


def _load():
    library = c.CDLL(str(LIBRARY))
    plan, info = c.c_void_p, c.POINTER(TensorInfo)
    for name, result, arguments in [
            ("convt_status_name", c.c_char_p, [c.c_int]),
            ("convt_last_error", c.c_char_p, []),
            ("convt_version", c.c_char_p, []),
            ("convt_set_num_threads", c.c_int, [c.c_size_t]),
            ("convt_set_float32_precision", c.c_int, [c.c_int]),
            ("convt_set_stream", c.c_int, [c.c_void_p]),
            ("convt_plan_create", c.c_int, [c.POINTER(plan), c.POINTER(Problem), c.POINTER(PlanOptions)]),
            ("convt_plan_create_from_text", c.c_int, [c.POINTER(plan), c.c_char_p, c.POINTER(PlanOptions)]),
            ("convt_plan_destroy", None, [plan]),
            ("convt_plan_input_info", c.c_int, [plan, info]),
            ("convt_plan_kernel_info", c.c_int, [plan, info]),
            ("convt_plan_output_info", c.c_int, [plan, info]),
            ("convt_plan_operand_count", c.c_size_t, [plan]),
            ("convt_plan_operand_info", c.c_int, [plan, c.c_size_t, info]),
            ("convt_plan_workspace_size", c.c_int, [plan, c.POINTER(c.c_size_t)]),
            ("convt_plan_pack_kernel", c.c_int, [plan, c.c_void_p, c.c_void_p]),
            ("convt_plan_execute", c.c_int, [plan, c.POINTER(Tensors)]),
            ("convt_plan_text", c.c_char_p, [plan]),
            ("convt_plan_explain", c.c_char_p, [plan]),
            ("convt_plan_engine", c.c_char_p, [plan]),
            ("convt_plan_products", c.c_int, [plan, c.POINTER(c.c_double), c.POINTER(c.c_double)]),
            ("convt_op_count", c.c_size_t, []),
            ("convt_op_describe", c.c_int, [c.c_size_t, c.POINTER(OpDescription)]),
            ("convt_named_problem_count", c.c_size_t, []),
            ("convt_named_problem_describe", c.c_int, [c.c_size_t, c.POINTER(NamedProblemDescription)])]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


class ConvtError(Exception):
    def __init__(self, status):
        self.status = status
        super().__init__(f"{lib.convt_status_name(status).decode()}: {last_error()}")


def last_error():
    return lib.convt_last_error().decode()


def check(status):
    if status != OK:
        raise ConvtError(status)


def address(array):
    if array is None:
        return None
    if hasattr(array, "data_ptr"):
        assert array.is_contiguous()
        return array.data_ptr()
    assert array.flags.c_contiguous
    return array.ctypes.data


class Plan:
    """A plan from the text of a case or from a Problem, for the host or for the GPU of that number."""

    def __init__(self, what, engine=None, gpu=None):
        self._plan = c.c_void_p()
        options = PlanOptions(c.sizeof(PlanOptions), 0 if gpu is None else 1, gpu or 0,
                              engine.encode() if engine else None, 0)
        if isinstance(what, Problem):
            check(lib.convt_plan_create(c.byref(self._plan), c.byref(what), c.byref(options)))
        else:
            check(lib.convt_plan_create_from_text(c.byref(self._plan), what.encode(), c.byref(options)))

    def __del__(self):
        lib.convt_plan_destroy(self._plan)

    def _info(self, function, *arguments):
        info = TensorInfo()
        check(function(self._plan, *arguments, c.byref(info)))
        return info

    input = property(lambda self: self._info(lib.convt_plan_input_info))
    kernel = property(lambda self: self._info(lib.convt_plan_kernel_info))
    output = property(lambda self: self._info(lib.convt_plan_output_info))
    text = property(lambda self: lib.convt_plan_text(self._plan).decode())
    engine = property(lambda self: lib.convt_plan_engine(self._plan).decode())

    @property
    def operands(self):
        return [self._info(lib.convt_plan_operand_info, i) for i in range(lib.convt_plan_operand_count(self._plan))]

    @property
    def workspace_size(self):
        size = c.c_size_t()
        check(lib.convt_plan_workspace_size(self._plan, c.byref(size)))
        return size.value

    def explain(self):
        return lib.convt_plan_explain(self._plan).decode()

    def products(self):
        needed, scattered = c.c_double(), c.c_double()
        check(lib.convt_plan_products(self._plan, c.byref(needed), c.byref(scattered)))
        return needed.value, scattered.value

    def pack_kernel(self, kernel):
        check(lib.convt_plan_pack_kernel(self._plan, address(kernel), None))

    def bind(self, input, kernel, operands, output, workspace=None, stream=None):
        """The tensors of a call, for run(); the caller keeps the arrays alive."""
        pointers = (c.c_void_p * max(len(operands), 1))(*map(address, operands))
        return Tensors(c.sizeof(Tensors), address(input), address(kernel), address(output), pointers, len(operands),
                       address(workspace), 0 if workspace is None else workspace.nbytes, stream)

    def run(self, tensors):
        check(lib.convt_plan_execute(self._plan, c.byref(tensors)))

    def execute(self, input, kernel, operands, output, workspace=None):
        self.run(self.bind(input, kernel, operands, output, workspace))


def entry_point(slug, suffix, pointers, sizes, scalars=0):
    """convt_<slug>_<suffix>, taking that many pointers, then sizes, then doubles; a trailing shape array for
    suffix "output_shape"."""
    function = getattr(lib, f"convt_{slug.replace('-', '_')}_{suffix}")
    function.restype = c.c_int
    shape = [c.c_void_p] if suffix == "output_shape" else []
    function.argtypes = [c.c_void_p] * pointers + [c.c_size_t] * sizes + [c.c_double] * scalars + shape
    return function


def _describe_all(count, describe, kind):
    rows = []
    for i in range(count()):
        row = kind()
        check(describe(i, c.byref(row)))
        rows.append({name: row[name] for name, _ in kind._fields_})
    return rows


def ops():
    """Dictionaries with the keys of convt_op_description."""
    return _describe_all(lib.convt_op_count, lib.convt_op_describe, OpDescription)


def named_problems():
    """Dictionaries with the keys of convt_named_problem_description."""
    return _describe_all(lib.convt_named_problem_count, lib.convt_named_problem_describe, NamedProblemDescription)
