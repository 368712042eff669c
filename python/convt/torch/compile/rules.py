# SPDX-License-Identifier: Apache-2.0
"""Whether a chain is taken: by rules made from measurements, which docs/python-measurements.md records.

The rules look at the sizes with which the graph was captured, and at nothing that changes between runs: the same model is
compiled to the same code.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ... import _library
from ..._plan import Plan
from .. import _chain, _kernel, _op, _precision, _reference
from .options import Options
from .values import hint, tensor_of
from .walker import Chain, Walk


@dataclasses.dataclass(frozen=True)
class Decision:
    take: bool
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Layer:
    """A call with the sizes of the time when it was captured."""

    input: tuple[int, ...]
    weight: tuple[int, ...]
    text: str
    dtype: torch.dtype
    device: torch.device
    input_layout: str
    layout: str

    @property
    def parsed(self) -> _chain.Call:
        return _chain.parse(self.text, len(self.input) - 2)

    @property
    def positions(self) -> int:
        """Products that each weight is used for."""
        return self.input[0] * math.prod(self.input[2:])

    @property
    def weights(self) -> int:
        return math.prod(self.weight)

    @property
    def problem(self) -> str:
        channels = f"{self.input[1]}->{self.weight[1] * self.parsed.groups}"
        sizes = (
            f"dtype={_kernel.DTYPES[self.dtype]} layout={self.input_layout}->{self.layout} batch={self.input[0]} "
            f"channels={channels} input={'x'.join(map(str, self.input[2:]))} "
            f"kernel={'x'.join(map(str, self.weight[2:]))}")
        return _chain.problem(self.text, len(self.input) - 2, sizes)


def _layer(walked: Walk, chain: Chain, text: str) -> Layer:
    input, weight = tensor_of(walked.prologue.input), tensor_of(walked.convolution.weight)
    assert input is not None and weight is not None
    last = _kernel.suggests_channels_last(input) if all(isinstance(size, int) for size in input.shape) else False
    batch = () if walked.convolution.batched else (1,)
    device = chain.running.tensor.device
    return Layer(
        (*batch, *map(hint, input.shape)), tuple(map(hint, weight.shape)), _precision.resolved(text, device),
        chain.running.dtype, device, _library.LAYOUTS[last], chain.layout)


def decide_prologue(device: torch.device, options: Options) -> bool:
    """Whether what stands before a convolution is taken too: GPUs have it in a pass of its own, as Inductor has."""
    return device.type == "cpu" or options.take == "always"


def decide(walked: Walk, chain: Chain, text: str, options: Options) -> Decision:
    """Whether a chain is taken, and if not, why."""
    layer = _layer(walked, chain, text)
    # Whatever the library would refuse at run time, it refuses here.
    try:
        device = str(layer.device) if layer.device.index is not None else layer.device.type
        plan = Plan(layer.problem, device=device)
    except _library.ConvtError as error:
        return Decision(False, f"the library refuses it: {error}")
    if options.take == "always":
        return Decision(True)
    if options.take == "measure":
        return _measured(layer)
    if layer.device.type == "cuda":
        return _on_gpu(layer, plan)
    return _on_cpu(layer, plan.engine)


# ---- the CPU

_NORMS = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm")
# What Inductor does in a pass of its own over the result.
_PASSES = ("layer_norm", "group_norm", "instance_norm", "rms_norm", "max_pool", "min_pool", "softmax", "log_softmax", "max",
           "min", "logsumexp")
# What a plan moves in front of the convolution, which then has less to do.
_MOVED = ("sum", "mean", "avg_pool", "sum_pool", "global_avg_pool")


@functools.cache
def _has_matrix_units() -> bool:
    """Whether PyTorch multiplies bfloat16 and float16 in AMX there."""
    return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())


@functools.cache
def _has_wide_vectors() -> bool:
    return "AVX512" in torch.backends.cpu.get_cpu_capability()


def machine() -> tuple[Any, ...]:
    """What the rules know of the machine: part of the key of what was compiled by them."""
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else ()
    return (_has_matrix_units(), _has_wide_vectors(), *capability)


def _runs_in_onednn(layer: Layer) -> bool:
    """Whether PyTorch would give a small layer to oneDNN, which depends on batch, kernel and groups."""
    call = layer.parsed
    with unset_fake_temporarily():
        input, weight = (torch.empty(shape, dtype=layer.dtype) for shape in (layer.input, layer.weight))
        backend = torch._C._select_conv_backend(
            input, weight, None, call.stride, call.padding, call.dilation, True, call.output_padding, call.groups)
    # By name: PyTorch's hints and the module spell the type differently.
    return str(backend).rpartition(".")[2] not in ("SlowTranspose2d", "SlowTranspose3d")


def _products_with_zeros(layer: Layer) -> float:
    """By how much the products grow at stride 1, where the engine multiplies the zeros around the image too."""
    call = layer.parsed
    growth = 1.0
    for size, kernel, padding in zip(layer.input[2:], layer.weight[2:], call.padding):
        growth *= max(1.0, (size + kernel - 1 - 2 * padding) / size)
    return growth


def _is_lost_to_onednn(layer: Layer) -> bool:
    """Whether a layer of stride 1, at which oneDNN is as fast as for ordinary convolutions, has too little behind it.

    In nanoseconds an output, one thread: products at some 70 GFLOP/s, and what Inductor pays to read and write the result
    again for pointwise operations, and for each operation that takes a pass of its own.
    """
    call = layer.parsed
    if set(call.stride) | set(call.dilation) | {call.groups} != {1}:
        return False
    growth = _products_with_zeros(layer)
    image = math.prod(layer.input[2:]) * (layer.weight[0] + layer.weight[1] * growth) * layer.dtype.itemsize
    # Images beyond the caches slow oneDNN down by a third.
    rate = 0.85 if image > 8e6 else 0.9 if _has_wide_vectors() else 1.15
    slower = rate * growth - 1
    loss = slower * layer.weight[0] * math.prod(layer.weight[2:]) / 35
    names = [op.name for op in call.chain]
    if set(names) & set(_MOVED):
        return False
    passes = sum(name in _PASSES for name in names)
    gain = 3.0 * passes + (1.5 if set(names) - {"bias"} else 0.0)
    # oneDNN takes long to begin.
    outputs = layer.positions * growth * layer.weight[1]
    return outputs * (loss - gain) > 60_000 and _runs_in_onednn(layer)


def _on_cpu(layer: Layer, engine: str) -> Decision:
    if engine != "cpu":
        return Decision(False, f"only the engine {engine} takes it")
    ops = [op for op in layer.parsed.chain if op.name != "bias"]
    products = layer.positions * layer.weights
    # oneDNN takes some 70 us to begin, PyTorch's own kernels 10, as convt does.
    least = 4_000 if ops else 75_000 if len(layer.input) == 5 else 100_000
    if products < least and not _runs_in_onednn(layer):
        return Decision(False, "tiny: the call costs more than it saves")
    # Weights are packed in every call, each for as few products as there are positions.
    if layer.positions < 32 and layer.weights > 65536:
        return Decision(False, "few positions for many weights, which are packed in every call")
    if _is_lost_to_onednn(layer):
        return Decision(False, "PyTorch is as fast at stride 1, and there is little behind it")
    if layer.dtype in (torch.bfloat16, torch.float16) and _has_matrix_units() and layer.parsed.groups == 1:
        if not any(op.name in _NORMS for op in ops):
            return Decision(False, "PyTorch multiplies 16-bit floats in AMX, which convt does not use yet")
    return Decision(True)


# ---- GPUs: what the Hopper engine runs fast

# The most that PyTorch's convolutions reach there, by precision, at stride 1 and at others, in multiply-adds a second; and
# the rate of a copy, in bytes (docs/python-measurements.md).
_RATES = {"ieee": (22e12, 6e12), "tf32": (115e12, 65e12), "16 bits": (260e12, 100e12)}
_COPY = 4.2e12
_CACHED = 30e6  # tensors of up to so many bytes are still in the cache when they are read again
# What the prediction may be off by where nothing is lost yet.
_MARGIN = 1.15


def _seconds_by_inductor(layer: Layer, plan: Plan) -> float:
    """By PyTorch's convolution at its best, and one pass over its result for all that sees one element each."""
    call, element = layer.parsed, layer.dtype.itemsize
    precision = "16 bits" if element == 2 else "tf32" if "precision=tf32" in layer.text else "ieee"
    rate = _RATES[precision][0 if set(call.stride) == {1} else 1]
    convolved = element * math.prod(_chain.output_shape(dataclasses.replace(call, chain=()), layer.input, layer.weight))
    products, bytes_moved = plan.products()[0], element * math.prod(layer.input) + convolved
    seconds: float = max(products / rate, bytes_moved / _COPY)
    if call.chain:
        copy = _COPY * (2 if convolved <= _CACHED else 1)
        passes = sum(op.name in _PASSES or op.name in _MOVED for op in call.chain)
        seconds += (convolved * max(1, passes) + plan.output.bytes + sum(operand.bytes for operand in plan.operands)) / copy
    return seconds


def _on_gpu(layer: Layer, plan: Plan) -> Decision:
    if plan.engine not in ("cuda-sm90", "cuda-sums"):
        return Decision(False, f"only the engine {plan.engine} takes it")
    dims = len(layer.input) - 2
    call = layer.parsed
    moderate = (
        dims >= 2 and call.groups == 1 and set(call.dilation) == {1} and max(call.stride) <= 2
        and all(3 <= size <= 7 for size in layer.weight[2:])
        and 16 <= layer.input[1] <= 128 and 16 <= layer.weight[1] <= 128)
    if not moderate:
        return Decision(False, "such layers are slow on a GPU today: channels, kernel, stride or groups")
    if layer.positions * layer.weights < 2e9:
        return Decision(False, "too small for a GPU")
    ours, theirs = plan.predicted_seconds(), _seconds_by_inductor(layer, plan)
    if ours * _MARGIN > theirs:
        return Decision(False, f"predicted: {ours * 1e6:.0f} us, and {theirs * 1e6:.0f} us by PyTorch at its best")
    return Decision(True)


# ---- measurement, on request


def _measured(layer: Layer) -> Decision:
    """Against PyTorch's own operations, uncompiled, on random numbers."""
    def random(shape: tuple[int, ...], dtype: torch.dtype = layer.dtype) -> torch.Tensor:
        return torch.rand(shape, device=layer.device).to(dtype)

    device = str(layer.device) if layer.device.index is not None else layer.device.type
    infos = Plan(layer.problem, device=device).operands
    dtypes = {name: dtype for dtype, name in _kernel.DTYPES.items()}
    operands = [random(info.shape, dtypes[info.dtype]) for info in infos]
    input, weight = random(layer.input), random(layer.weight)

    def ours() -> None:
        _op.call(input, weight, operands, layer.text)

    def theirs() -> None:
        _reference.run(input, weight, operands, layer.parsed)

    times = []
    with torch.no_grad():
        for function in (ours, theirs):
            function()
            best = math.inf
            for _ in range(5):
                _wait(layer.device)
                start = time.perf_counter()
                function()
                _wait(layer.device)
                best = min(best, time.perf_counter() - start)
            times.append(best)
    if times[0] <= times[1]:
        return Decision(True)
    return Decision(False, f"measured: {times[0] * 1e6:.0f} us, and {times[1] * 1e6:.0f} us by PyTorch")


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
