# SPDX-License-Identifier: Apache-2.0
"""Plans: a problem bound to a device and to an engine."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

from . import _arrays, _library
from ._arrays import View
from ._library import (
    DEVICES, DTYPES, LAYOUTS, ConvtError, PlanOptions, Problem, TensorInfo, Tensors, check, lib, text_of)

_TENSORS_SIZE = c.sizeof(Tensors)


class _Native:
    """A convt_plan, destroyed with this object."""

    __slots__ = ("pointer",)

    def __init__(self, what: str | Problem, options: PlanOptions) -> None:
        self.pointer = c.c_void_p()
        if isinstance(what, Problem):
            check(lib.convt_plan_create(c.byref(self.pointer), c.byref(what), c.byref(options)))
        else:
            check(lib.convt_plan_create_from_text(c.byref(self.pointer), what.encode(), c.byref(options)))

    def __del__(self, destroy: Any = lib.convt_plan_destroy) -> None:
        destroy(self.pointer)


class Plan:
    """A transposed convolution and its chain, from their text form (docs/text.md), ready to run.

    >>> plan = convt.Plan("conv_transpose1d dtype=f32 channels=1->1 input=3 kernel=2 | bias | relu | mul(0.5)")
    >>> plan.output.shape
    (1, 1, 4)
    >>> [(operand.name, operand.shape) for operand in plan.operands]
    [('bias.other', (1,))]
    >>> x = np.array([[[1, 2, 3]]], np.float32)
    >>> w = np.array([[[1, 10]]], np.float32)
    >>> plan.run(x, w, operands=[np.array([-20], np.float32)])
    array([[[0. , 0. , 1.5, 5. ]]], dtype=float32)

    `device` is "cpu", "cuda" or "cuda:N"; `engine` names one engine, or one of its candidates as explain() shows them,
    and `workspace_limit` is in bytes, 0 for none. Any number of threads may use a plan at once.
    """

    def __init__(
        self, text: str | Problem, *, device: str = "cpu", engine: str | None = None, workspace_limit: int = 0
    ) -> None:
        kind, _, index = device.partition(":")
        if kind not in DEVICES or (index and (kind == "cpu" or not index.isdigit())):
            raise ConvtError(f"device: expected cpu, cuda or cuda:N (got {device})")
        self._options = PlanOptions(
            c.sizeof(PlanOptions), DEVICES.index(kind), int(index or 0), engine.encode() if engine else None,
            workspace_limit)
        self._native = _Native(text, self._options)
        self._packed = False
        self.device = device
        self._device = None if kind == "cpu" else int(index or 0)
        #: The problem, in its canonical text form.
        self.text = text_of(lib.convt_plan_text(self._native.pointer))
        #: The engine that runs the plan.
        self.engine = text_of(lib.convt_plan_engine(self._native.pointer))
        self.input = self._info(lib.convt_plan_input_info, strides=lib.convt_plan_input_strides)
        self.weight = self._info(lib.convt_plan_kernel_info)
        self.output = self._info(lib.convt_plan_output_info, strides=lib.convt_plan_output_strides)
        count = lib.convt_plan_operand_count(self._native.pointer)
        #: The tensors that prologue and chain take, in the order in which run() takes them.
        self.operands = tuple(self._info(lib.convt_plan_operand_info, i) for i in range(count))

    def _info(self, function: Any, *arguments: int, strides: Any = None) -> TensorInfo:
        info, steps = _library._TensorInfo(), (c.c_size_t * 5)()
        check(function(self._native.pointer, *arguments, c.byref(info)))
        shape, layout = tuple(info.shape[: info.rank]), LAYOUTS[info.layout]
        if strides is not None:
            check(strides(self._native.pointer, steps))
        apart = _arrays.dense_strides(shape, layout) if strides is None else tuple(steps[: info.rank])
        return TensorInfo(info.name.decode(), shape, DTYPES[info.dtype], layout, info.bytes, info.stage, apart)

    def __repr__(self) -> str:
        return f"convt.Plan({self.text!r}, device={self.device!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed:
            raise TypeError("a plan with a packed weight can be neither pickled nor copied: pack the copy's anew")
        engine = self._options.engine
        return _remake, (self.text, self.device, engine.decode() if engine else None, self._options.workspace_limit)

    @property
    def handle(self) -> int:
        """The convt_plan's address, for calls of the C ABI; it is valid until the plan goes or packs a weight."""
        return int(self._native.pointer.value or 0)

    @property
    def workspace_size(self) -> int:
        """Bytes of scratch memory that a run needs; the library provides and keeps it."""
        size = c.c_size_t()
        check(lib.convt_plan_workspace_size(self._native.pointer, c.byref(size)))
        return size.value

    def explain(self) -> str:
        """Shapes, work, the engines that were asked, and why the one that runs the plan was chosen."""
        return text_of(lib.convt_plan_explain(self._native.pointer))

    def products(self) -> tuple[float, float]:
        """Multiply-adds of the convolution: those that the output needs, and those that a scatter would form."""
        needed, scattered = c.c_double(), c.c_double()
        check(lib.convt_plan_products(self._native.pointer, c.byref(needed), c.byref(scattered)))
        return needed.value, scattered.value

    def predicted_seconds(self) -> float:
        """The time of one run, as the engine's cost model predicts it: the number by which the plan was chosen."""
        seconds = c.c_double()
        check(lib.convt_plan_predicted_seconds(self._native.pointer, c.byref(seconds)))
        return seconds.value

    def pack(self, weight: Any, *, stream: int = 0) -> None:
        """Keeps a copy of a weight that does not change, arranged as the engine reads it; run() then needs none.

        >>> plan = convt.Plan("conv_transpose1d channels=1->1 input=3 kernel=2")
        >>> plan.pack(np.array([[[1, 10]]], np.float32))
        >>> plan.run(np.array([[[1, 2, 3]]], np.float32))
        array([[[ 1., 12., 23., 30.]]], dtype=float32)
        """
        view = self._read(weight, self.weight, "weight", stream)
        self.pack_pointer(view.pointer, stream)

    def pack_pointer(self, weight: int, stream: int = 0) -> None:
        """pack(), of an address."""
        # Into a plan of its own, which then takes the place of this one: threads may be running the old one.
        native = _Native(self.text, self._options)
        check(lib.convt_plan_pack_kernel(native.pointer, weight or None, stream or None))
        self._native, self._packed = native, True

    def run(
        self,
        input: Any,
        weight: Any = None,
        operands: Sequence[Any] = (),
        *,
        out: Any = None,
        stream: int = 0,
    ) -> Any:
        """Runs the plan, and returns its result: `out`, or a new array of the input's library.

        Arrays have the shapes of `plan.input`, `plan.weight` and `plan.operands`, (N, C, ...) whatever the layout. Those
        that do not lie as the plan takes them are copied, on the host; `out` must lie right. `weight` may be left out
        once it is packed. On a GPU, work is enqueued on `stream`, a cudaStream_t's address (0: the default stream), and
        run() does not wait for it.

        Where the text says `within`, input and output are ranges of the channels of arrays that have so many. A result
        that is not given then is the first channels of a new one.

        >>> plan = convt.Plan("conv_transpose1d channels=1->1 within=1->3 batch=2 input=2 kernel=2")
        >>> joined = np.zeros((2, 3, 3), np.float32)
        >>> y = plan.run(np.ones((2, 1, 2), np.float32), np.ones((1, 1, 2), np.float32), out=joined[:, 1:2])
        >>> joined[0]
        array([[0., 0., 0.],
               [1., 2., 1.],
               [0., 0., 0.]], dtype=float32)
        """
        x = self._read(input, self.input, "input", stream)
        if weight is None and not self._packed:
            raise ConvtError("weight: must be given, since none is packed")
        w = None if weight is None else self._read(weight, self.weight, "weight", stream)
        if len(operands) != len(self.operands):
            names = ", ".join(info.name for info in self.operands)
            raise ConvtError(f"operands: expected {len(self.operands)} ({names}; got {len(operands)})")
        given = [
            self._read(operand, info, info.name, stream)
            for operand, info in zip(operands, self.operands, strict=True)
        ]
        return self._run(input, x, w, given, out, None if out is None else _arrays.look(out, "out", stream), stream)

    def _run(
        self, input: Any, x: View, w: View | None, operands: Sequence[View], out: Any, y: View | None, stream: int
    ) -> Any:
        """run(), of views that were checked; y is the one of `out`."""
        if y is None:
            out = _arrays.empty_like(input, x, self.output)
            y = _arrays.look(out, "out", stream)
        else:
            _arrays.check_output(y, self.output)
        device = self._device
        if x.device != device or y.device != device or (w is not None and w.device != device) or any(
                view.device != device for view in operands):
            places = {"host" if view.device is None else f"cuda:{view.device}" for view in (x, w, y, *operands) if view}
            raise ConvtError(f"arrays: expected all on {self.device}, for which the plan is (got {', '.join(places)})")
        self.run_pointers(
            x.pointer, 0 if w is None else w.pointer, y.pointer, [view.pointer for view in operands], stream=stream)
        return out

    def run_pointers(
        self,
        input: int,
        weight: int,
        output: int,
        operands: Sequence[int] = (),
        *,
        workspace: int = 0,
        workspace_size: int = 0,
        stream: int = 0,
    ) -> None:
        """run(), of addresses: those of arrays that lie exactly as the plan says. The caller keeps them alive."""
        native = self._native  # alive until the call ends, whatever pack() does meanwhile
        count = len(operands)
        pointers = (c.c_void_p * count)(*operands) if count else None
        tensors = Tensors(
            _TENSORS_SIZE, input, weight, output, pointers, count, workspace, workspace_size, stream)
        status = lib.convt_plan_execute(native.pointer, c.byref(tensors))
        if status:
            check(status)

    def _read(self, array: Any, info: TensorInfo, name: str, stream: int) -> View:
        view = _arrays.look(array, name, stream)
        if not _arrays.same_dtype(view.dtype, info.dtype) or not _fits(view.shape, info.shape, len(self.input.shape) - 2):
            raise ConvtError(
                f"{name}: expected {info.dtype} of shape {info.shape} (got {view.dtype} of shape {view.shape})")
        strides = info.strides if view.shape == info.shape else _arrays.dense_strides(view.shape, info.layout)
        return _arrays.laid(view, strides, name)


def _fits(given: tuple[int, ...], wanted: tuple[int, ...], dims: int) -> bool:
    """The same shape; or one value per channel that NumPy would stretch along channels: (C, 1, 1), (1, C, 1, 1)."""
    if given == wanted:
        return True
    ones = (1,) * dims
    return len(wanted) == 1 and given in (wanted + ones, (1,) + wanted + ones)


def _remake(text: str, device: str, engine: str | None, workspace_limit: int) -> Plan:
    return Plan(text, device=device, engine=engine, workspace_limit=workspace_limit)
