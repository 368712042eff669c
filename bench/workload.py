# SPDX-License-Identifier: Apache-2.0
"""A case of the text form with data for its tensors, and what PyTorch makes of it."""

import math
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))

import convt_abi  # noqa: E402
import oracle  # noqa: E402

TORCH = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}  # PyTorch has none for one dimension


class Model(torch.nn.Module):
    """A case in PyTorch, over tensors of any dtype: the convolution with its bias, then the ops' own expressions."""

    def __init__(self, case, kernel, operands):
        super().__init__()
        if case.prologue:
            raise ValueError("the benchmark's model has no prologue")
        self.kernel, self.axes, self.groups = kernel, case.axes, case.groups
        self.convolve = getattr(F, f"conv_transpose{case.dims}d")
        uses_conv = any(op.parameters.get("other") == "conv" for op in case.chain)
        fused_bias = bool(case.chain) and case.chain[0].name == "bias" and not uses_conv
        self.bias = operands[0]["other"] if fused_bias else None
        expressions = {op["name"]: op["torch"] for op in convt_abi.ops()}
        self.stages = [stage(case.dims, op, operands[position], expressions[op.name])
                       for position, op in enumerate(case.chain) if not (fused_bias and position == 0)]

    def forward(self, x):
        axes = self.axes
        return self.chain(self.convolve(x, self.kernel, self.bias, axes["stride"], axes["padding"],
                                        axes["output_padding"], self.groups, axes["dilation"]))

    def chain(self, x):
        kept = {"conv": x}
        for apply in self.stages:
            x = apply(x, kept)
        return x


def stage(dims, op, operands, expression):
    """An op as a function of x and of the values that the chain kept; convt_op_description says what its expression may
    name."""
    if op.name == "keep":
        return lambda x, kept: kept.setdefault(op.parameters["name"], x)
    scope = {"torch": torch, "F": F, "along": oracle.along, "dims": oracle.axes_of(op, dims),
             "max_pool": getattr(F, f"max_pool{dims}d"), "avg_pool": getattr(F, f"avg_pool{dims}d"),
             **dict.fromkeys(("weight", "bias")), **op.parameters, **operands}
    term = op.parameters.get("other")
    if "other" in operands and operands["other"].dim() == 1:
        scope["other"] = operands["other"].reshape(-1, *[1] * dims)
    elif isinstance(term, str) and "other" not in operands:
        del scope["other"]
        apply = eval(f"lambda x, other: {expression}", scope)  # pylint: disable=eval-used
        return lambda x, kept: apply(x, kept[term])
    apply = eval(f"lambda x: {expression}", scope)  # pylint: disable=eval-used
    return lambda x, kept: apply(x)


def laid_out(tensor, layout):
    """The same elements in the memory order that the layout names."""
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1) if layout == "channels_last" else tensor.contiguous()


class Workload:
    """Inputs are uniform in [0, 1); kernels are symmetric around 0 and scaled so that the convolution's results have
    the order of 1, which no activation saturates."""

    def __init__(self, name, text, seed=1, gpu=None):
        self.name, self.text = name, text
        self.plan = convt_abi.Plan(text, gpu=gpu)
        self.case = oracle.parse(text)
        self.device = torch.device("cpu") if gpu is None else torch.device("cuda", gpu)
        random = torch.Generator(self.device).manual_seed(seed)

        def uniform(shape):
            return torch.rand(shape, generator=random, device=self.device)

        self.dtype = TORCH[self.plan.input.dtype]
        self.input = laid_out(uniform(self.plan.input.shape).to(self.dtype), self.plan.input.layout)
        axes = self.case.axes
        taps = math.prod(max(k / s, 1) for k, s in zip(axes["kernel"], axes["stride"]))
        terms = self.case.channels[0] / self.case.groups * taps
        self.kernel = ((2 * uniform(self.plan.weight.shape) - 1) * math.sqrt(9 / terms)).to(self.dtype)
        self.operands = [laid_out((0.5 + uniform(info.shape)).to(TORCH[info.dtype]), info.layout)
                         for info in self.plan.operands]

    @property
    def flop(self):
        """Of the products that some element of the output needs."""
        return 2 * self.plan.products()[0]

    @property
    def bytes(self):
        """Of all tensors, each read or written once."""
        return sum(info.bytes for info in (self.plan.input, self.plan.weight, *self.plan.operands, self.plan.output))

    def empty_output(self):
        """Full of NaN, in the case's layout."""
        empty = torch.full(self.plan.output.shape, torch.nan, dtype=self.dtype, device=self.device)
        return laid_out(empty, self.plan.output.layout)

    def model(self, dtype=None, channels=slice(None), memory_format=torch.contiguous_format):
        dtype = dtype or self.dtype
        operands = [{} for _ in self.case.chain]
        for info, tensor in zip(self.plan.operands, self.operands):
            operands[info.stage][info.name.split(".")[-1]] = tensor.to(dtype)
        kernel = self.kernel[:, channels].to(dtype).contiguous(memory_format=memory_format)
        return Model(self.case, kernel, operands)

    def expected(self, images=None):
        """The result of the first images, or of all, in float64. PyTorch's float64 convolution goes through a buffer of one image's products before
        they are added up: some output channels at a time keep it below 1 GiB."""
        x, whole = self.input[:images].double(), self.model(torch.float64)
        if self.case.groups > 1:
            return whole(x)
        per_channel = 8 * math.prod((*self.case.axes["input"], *self.case.axes["kernel"]))
        step = max(2**30 // per_channel, 1)
        parts, bias = [], whole.bias
        for first in range(0, self.case.channels[1], step):
            part = self.model(torch.float64, slice(first, first + step))
            part.stages, part.bias = [], None if bias is None else bias[first:first + step]
            parts.append(part(x))
        return whole.chain(torch.cat(parts, 1))


def read_shapes(path=Path(__file__).parent / "shapes.txt"):
    """The cases of shapes.txt by name. What cannot be read ends the program, with the line it stands in."""
    shapes = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *text = line.split(None, 1)
        if not text:
            sys.exit(f"{path}:{number}: a line is a name, a tab, a case (got {line!r})")
        if name in shapes:
            sys.exit(f"{path}:{number}: there are two shapes named {name}")
        try:
            convt_abi.Plan(text[0])
        except convt_abi.ConvtError as error:
            sys.exit(f"{path}:{number}: {error}")
        shapes[name] = text[0].strip()
    return shapes


def with_batch(text, batch):
    return re.sub(r"\bbatch=\d+", f"batch={batch}", text)
