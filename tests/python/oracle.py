# SPDX-License-Identifier: Apache-2.0
"""What PyTorch computes in float64 for the text of a case: an own parser of the text form, the data of a case, and the
comparison of a result with the oracle's. Only the meaning of each op (convt_op_describe) comes from the library."""

import ast
import functools
import math
import re
import types
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F

import convt_abi

torch.set_num_threads(1)  # the tensors are small

# ---- the text form


@dataclass
class Operand:
    """A tensor that an op takes, under its short name; `layout` is None where the layout has no say."""
    name: str
    dtype: str
    shape: tuple
    layout: str | None = None


@dataclass
class Op:
    name: str
    parameters: dict


@dataclass
class Case:
    dims: int
    dtype: str = "f32"
    input_layout: str = "channels_first"
    output_layout: str = "channels_first"
    batch: int = 1
    channels: tuple = ()
    within: tuple = (0, 0)  # channels of the tensors that input and output are ranges of; 0: of none
    groups: int = 1
    axes: dict = field(default_factory=dict)  # input, kernel, stride, ... -> one size per axis
    prologue: list = field(default_factory=list)
    chain: list = field(default_factory=list)


AXIS_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}


def parse_value(text):
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"\d+(x\d+)+", text):
        sizes = tuple(int(size) for size in text.split("x"))
        return sizes[0] if len(set(sizes)) == 1 else sizes
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


@functools.cache
def vocabulary():
    """Each op's parameters with their defaults (None: none), in order, its compiled PyTorch expression, and which names
    the expression uses."""
    table = {}
    for op in convt_abi.ops():
        name, _, arguments = op["signature"].rstrip(")").partition("(")
        parameters = {}
        for argument in filter(None, arguments.split(", ")):
            key, _, default = argument.partition("=")
            parameters[key] = None if default in ("", "...") else parse_value(default)
        tree = ast.parse(op["torch"], mode="eval")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        table[name] = parameters, compile(tree, f"<torch of {name}>", "eval"), names
    return table


def parse_op(text):
    name, arguments = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text).groups()
    known = vocabulary()[name][0]
    given = {}
    for argument in filter(None, (part.strip() for part in (arguments or "").split(","))):
        key, equals, value = (part.strip() for part in argument.partition("="))
        if equals:
            given[key] = parse_value(value)
        elif key in known and key not in given:
            given[key] = True
        else:  # the first parameter not yet given that is neither a flag nor a dtype
            position = next(k for k, default in known.items()
                            if k not in given and k != "dtype" and not isinstance(default, bool))
            given[position] = parse_value(key)
    return Op(name, {**known, **given})


def parse(text):
    parts = text.split("|")
    at = next(i for i, part in enumerate(parts) if part.split()[0].startswith("conv_transpose"))
    prologue, head, chain = parts[:at], parts[at], parts[at + 1:]
    kind, *fields = head.split()
    case = Case(dims=int(re.fullmatch(r"conv_transpose([123])d", kind)[1]))
    values = dict(re.fullmatch(r"(\w+)=(\S+)", item).groups() for item in fields)
    case.dtype = values.pop("dtype", case.dtype)
    layouts = values.pop("layout", "channels_first").split("->")
    case.input_layout, case.output_layout = layouts[0], layouts[-1]
    case.batch = int(values.pop("batch", 1))
    case.channels = tuple(int(count) for count in values.pop("channels").split("->"))
    case.within = tuple(int(count) for count in values.pop("within", "0->0").split("->"))
    case.groups = int(values.pop("groups", 1))
    values.pop("precision", None)
    for name in ("input", "kernel", *AXIS_DEFAULTS):
        sizes = [int(size) for size in values.pop(name, str(AXIS_DEFAULTS.get(name))).split("x")]
        case.axes[name] = tuple(sizes * case.dims if len(sizes) == 1 else sizes)
        assert len(case.axes[name]) == case.dims
    assert not values, values
    case.prologue = [parse_op(part) for part in prologue]
    case.chain = [parse_op(part) for part in chain]
    return case


def operands_of(op, shape, dtype, layout):
    """What an op takes from its caller, given the shape of the value it works on."""
    parameters, names = op.parameters, vocabulary()[op.name][2]
    if parameters.get("dtype") == "f32":
        dtype = "f32"
    operands = []
    if "other" in names:
        term = parameters.get("other", "channel")
        if term == "channel":
            operands.append(Operand("other", dtype, shape[1:2]))
        elif term == "tensor":
            operands.append(Operand("other", dtype, shape, layout))
    for name in ("mean", "var"):
        if name in names:
            operands.append(Operand(name, dtype, shape[1:2]))
    if parameters.get("affine"):
        trailing = parameters.get("trailing") or 0
        sizes = shape[-trailing:] if trailing else shape[1:2]
        operands += [Operand(name, dtype, sizes) for name in ("weight", "bias")]
    return operands


# ---- numbers


def round_to(values, dtype):
    """The nearest numbers of a dtype, ties to even, in its storage type."""
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore"):
        if dtype != "bf16":
            return values.astype(convt_abi.STORAGE[dtype])
        # NumPy has no bfloat16, and PyTorch rounds a double twice. Keep 8 of the 53 digits; subnormals are multiples of
        # 2^-133; what remains is exact in a float, whose upper half it is.
        bits = values.view(np.uint64)
        kept = (bits + np.uint64((1 << 44) - 1) + (bits >> np.uint64(45) & np.uint64(1))) & ~np.uint64((1 << 45) - 1)
        rounded = np.where(np.abs(values) < 2.0**-126, np.rint(values * 2.0**133) * 2.0**-133, kept.view(np.float64))
        rounded = np.where(np.isfinite(values), rounded, values)
        return (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def to_double(stored, dtype):
    if dtype == "bf16":
        stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float64)


def hashed(seed, tensor, count):
    """z of the golden data: 64 bits for each element of tensor number `tensor`."""
    seeds = seed * 0x9E3779B97F4A7C15 + (tensor + 1) * 0xBF58476D1CE4E5B9
    z = np.uint64(seeds % 2**64) + np.arange(count, dtype=np.uint64) * np.uint64(0x94D049BB133111EB)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def data(seed, tensor, count, fill, name):
    """Elements of a tensor before they are rounded; `name` is that of the tensor's info, e.g. "batch_norm.var"."""
    z = hashed(seed, tensor, count)
    u = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    signed = 2 * u - 1
    if name.endswith(".var"):
        return 0.5 + u
    if name.endswith("div.other"):
        return np.where(signed < 0, -1.0, 1.0) * (0.5 + u)
    if fill == "unit":
        return u
    if fill == "special" and name != "kernel":
        for code, value in enumerate((math.nan, math.inf, -math.inf)):
            signed[z & np.uint64(63) == code] = value
    return signed


def memory_shape(shape, layout):
    return (shape[0], *shape[2:], shape[1]) if layout == "channels_last" else tuple(shape)


def logical(array, layout):
    return np.moveaxis(array, -1, 1) if layout == "channels_last" else array


# ---- PyTorch


def definite(norm):
    """A norm whose weight enters last, as its definition says: PyTorch's CPU kernels multiply it into the scale and the
    shift first, whose sum is NaN where the weight is infinite."""
    def wrapped(x, *arguments):
        *others, weight, bias, eps = arguments
        if weight is None or torch.isfinite(weight).all():
            return norm(x, *others, weight, bias, eps)
        sizes = (-1, *[1] * (x.dim() - 2))
        return norm(x, *others, None, None, eps) * weight.reshape(sizes) + bias.reshape(sizes)
    return wrapped


@definite
def instance_norm(x, weight, bias, eps):
    if math.prod(x.shape[2:]) > 1:
        return F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)
    return torch.group_norm(x, x.shape[1], weight, bias, eps)  # F.instance_norm refuses single pixels


@definite
def batch_norm(x, mean, var, weight, bias, eps):
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


# F.avg_pool3d refuses windows larger than the image without its padding; its siblings do not.
def avg_pool3d(x, size, stride, padding, ceil, count_include_pad):
    def axes(value):
        return (value,) * 3 if isinstance(value, int) else value

    size, stride, padding = axes(size), axes(stride), axes(padding)
    if all(window <= extent for window, extent in zip(size, x.shape[2:])):
        return F.avg_pool3d(x, size, stride, padding, ceil, count_include_pad)
    # Sums and counts of windows are separable: H and W, with D among the channels, then D beside H*W.
    x = F.avg_pool2d(x.flatten(1, 2), size[1:], stride[1:], padding[1:], ceil, count_include_pad).unflatten(
        1, x.shape[1:3])
    return F.avg_pool2d(x.flatten(3), (size[0], 1), (stride[0], 1), (padding[0], 0), ceil, count_include_pad).unflatten(
        3, x.shape[3:])


# What `F` and the pools stand for in an op's expression.
FUNCTIONS = types.SimpleNamespace(**{
    **{name: getattr(F, name) for name in dir(F) if not name.startswith("_")},
    "group_norm": definite(torch.group_norm),  # F.group_norm refuses statistics of a single element
    "instance_norm": lambda x, mean, var, weight, bias, given, momentum, eps: instance_norm(x, weight, bias, eps),
    "batch_norm": lambda x, mean, var, weight, bias, training, momentum, eps: batch_norm(
        x, mean, var, weight, bias, eps),
    "avg_pool3d": avg_pool3d})


def along(function, x, dims):
    """A function of one dimension along several, as if they were one."""
    ends = list(range(-len(dims), 0))
    flat = x.movedim(dims, ends).flatten(-len(dims))
    return function(flat, -1).unflatten(-1, [x.shape[dim] for dim in dims]).movedim(ends, dims)


def axes_of(op, dims):
    """The axes of a tensor (N, C, space...) that an op with `axes` is over."""
    return [1 if axis == "c" else dims - 1 + "dhw".index(axis) for axis in op.parameters.get("axes") or ""]


def apply(op, x, operands, kept):
    """One op on a float64 tensor; `operands` are float64 tensors by short name, and `kept` those that the chain names."""
    expression, dims = vocabulary()[op.name][1], x.dim() - 2
    scope = {"torch": torch, "F": FUNCTIONS, "along": along, "dims": axes_of(op, dims),
             "max_pool": getattr(FUNCTIONS, f"max_pool{dims}d"), "avg_pool": getattr(FUNCTIONS, f"avg_pool{dims}d"),
             **op.parameters,
             **dict.fromkeys(("weight", "bias", "mean", "var")), **operands, "x": x}
    term = op.parameters.get("other", "channel")
    if term == "channel" and "other" in operands:
        scope["other"] = operands["other"].reshape(-1, *[1] * dims)
    elif term in kept:
        scope["other"] = kept[term]
    elif "other" not in operands:
        scope["other"] = term
    return eval(expression, scope)  # pylint: disable=eval-used


@dataclass
class Result:
    case: Case
    stored: list  # input, kernel, operands, in memory order and storage type
    operands: list  # Operand of each, named as in the library's infos
    output: np.ndarray  # float64, logical order


def evaluate(text, seed, fill="signed", perturb=0.0, draw=0):
    """Runs a case in float64. The fill "special_tensors" is "special" in the input and in operands that are whole
    tensors, and "signed" in the others. `perturb` nudges every value in the chain but zeros, which are exact, up or down by that
    fraction of its tensor's largest element, as `draw` has it: how far the output moves tells what its digits are
    worth."""
    case = parse(text)
    stored, operands = [], []

    def nudged(x):
        if not perturb:
            return x
        signs = np.where(hashed(seed, -1 - draw, x.numel()) & np.uint64(1), 1.0, -1.0).reshape(x.shape)
        return x + perturb * largest(x.numpy()) * torch.from_numpy(np.where(x == 0, 0.0, signs))

    def tensor(name, dtype, shape, layout=None):
        its_fill = ("special" if layout else "signed") if fill == "special_tensors" else fill
        held = round_to(data(seed, len(stored), math.prod(shape), its_fill, name), dtype)
        held = held.reshape(memory_shape(shape, layout))
        stored.append(held)
        return torch.from_numpy(np.ascontiguousarray(logical(to_double(held, dtype), layout)))

    axes = case.axes
    x = tensor("input", case.dtype, (case.batch, case.channels[0], *axes["input"]), case.input_layout)
    w = tensor("kernel", case.dtype, (case.channels[0], case.channels[1] // case.groups, *axes["kernel"]))

    def run(op, x, prefix, layout, kept):
        taken = operands_of(op, tuple(x.shape), case.dtype, layout)
        values = {}
        for operand in taken:
            name = operand.name
            operand.name = f"{prefix}{op.name}.{name}"
            values[name] = tensor(operand.name, operand.dtype, operand.shape, operand.layout)
        operands.extend(taken)
        return nudged(apply(op, x, values, kept))

    for op in case.prologue:
        x = run(op, x, "prologue.", case.input_layout, {})
    convolve = getattr(F, f"conv_transpose{case.dims}d")
    x = nudged(convolve(x, w, None, axes["stride"], axes["padding"], axes["output_padding"], case.groups,
                               axes["dilation"]))
    kept = {"conv": x}
    for op in case.chain:
        if op.name == "keep":
            kept[op.parameters["name"]] = x
        x = run(op, x, "", case.output_layout, kept)
    return Result(case, stored, operands, x.numpy())


# ---- comparison


def ordered(bits):
    """16-bit floats as integers in the order of their values."""
    bits = bits.view(np.uint16).astype(np.int32)
    return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)


def largest(expected):
    """The magnitude that tolerances are relative to."""
    finite = np.abs(expected[np.isfinite(expected)])
    return max(finite.max() if finite.size else 0.0, 1e-9)


# Of the largest; 16 bits: or one ulp. The reference accumulates in float64 and rounds once, the others in float32.
TOLERANCE = {"reference": {"f64": 1e-12, "f32": 1e-6, "f16": 1e-12, "bf16": 1e-12},
             "cpu": {"f64": 1e-11, "f32": 1e-5, "f16": 1e-5, "bf16": 1e-5}}
ENGINES = list(TOLERANCE)


def mismatch(stored, dtype, expected, engine, slack=0.0, doubtful=False):
    """None if every element of an engine's result in storage type agrees with the float64 oracle (same shape and
    order), else what the worst one is. `slack` is an absolute error to allow beside the tolerance of the dtype; where
    `doubtful`, any value will do."""
    rounded = round_to(expected, dtype)
    got, want = to_double(stored, dtype), to_double(rounded, dtype)
    finite = np.isfinite(want) & np.isfinite(got)
    top = largest(expected)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(got - expected), np.inf)
    allowed = TOLERANCE[engine][dtype] * top + slack
    good = (error <= allowed) | (got == want) | (np.isnan(got) & np.isnan(want)) | doubtful
    if dtype in ("f16", "bf16"):
        good |= finite & (np.abs(ordered(stored) - ordered(rounded)) <= 1)
    if good.all():
        return None
    worst = np.unravel_index(np.argmax(np.where(good, -1, error)), good.shape)
    return (f"{(~good).sum()} of {good.size} elements differ; at {tuple(map(int, worst))} got {float(got[worst])!r}, "
            f"expected {float(expected[worst])!r} (largest {top:.3g}, allowed {allowed:.3g})")


def rounding(engine, dtype):
    """Twice the roundoff that an engine computes with."""
    return 4e-16 if engine == "reference" or dtype == "f64" else 1.2e-7


def doubt(text, seed, fill, output, unit=4e-16, draws=1):
    """How far rounding errors of `unit` inside the chain may move the oracle's output, and the elements whose value
    means nothing, since such errors decide it. (A norm of a constant region makes noise of its input's last digit, and
    an infinite weight makes an infinity of either sign, or NaN, of that noise.)"""
    change, meaningless = np.zeros(output.shape), np.zeros(output.shape, bool)
    for perturb, draw in ((sign * unit, draw) for draw in range(draws) for sign in (1, -1)):
        moved = evaluate(text, seed, fill, perturb, draw).output
        finite = np.isfinite(moved) & np.isfinite(output)
        with np.errstate(invalid="ignore"):
            difference = np.where(finite, np.abs(moved - output), 0)
        same = (moved == output) | finite | (np.isnan(moved) & np.isnan(output))
        meaningless |= ~same | (difference > 1e-3 * largest(output))
        change = np.maximum(change, difference)
    return change[~meaningless].max(initial=0.0), meaningless
