# SPDX-License-Identifier: Apache-2.0
"""Results of the library, through its C ABI, against PyTorch in float64.

Environment: CONVT_SWEEP_SEED and CONVT_SWEEP_CASES choose other random cases, and more of them; CONVT_LIBRARY and
CONVT_COMMAND say which library and command to test."""

import math
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import convt_abi
import oracle

SEED = int(os.environ.get("CONVT_SWEEP_SEED", 20240))
CASES = int(os.environ.get("CONVT_SWEEP_CASES", 3000))
POISON = 0x7B  # repeated, a large finite number in every dtype
GUARD = 64  # bytes before and after a buffer


class Guarded:
    """A copy of an array, or a poisoned array of that shape and dtype, between two zones of poison. It begins `offset`
    elements behind a multiple of 64 bytes."""

    def __init__(self, array=None, shape=(), dtype=None, offset=0):
        shape, dtype = (shape, dtype) if array is None else (array.shape, array.dtype)
        size = math.prod(shape) * dtype.itemsize
        self.bytes = np.full(size + 2 * GUARD + 64, POISON, np.uint8)
        begin = GUARD + -(self.bytes.ctypes.data + GUARD) % 64 + offset * dtype.itemsize
        self.array = self.bytes[begin:begin + size].view(dtype).reshape(shape)
        self.outside = [self.bytes[:begin], self.bytes[begin + size:]]
        if array is not None:
            self.array[...] = array
        self.original = array

    def check(self):
        assert all((zone == POISON).all() for zone in self.outside), "written outside the buffer"
        assert self.original is None or self.array.tobytes() == self.original.tobytes(), "an input was written to"


def fill_of(text, wanted="signed"):
    return "unit" if "div(conv)" in text and wanted == "signed" else wanted


def extent(shape, layout, within):
    """Elements from the first to behind the last of a tensor that is a range of `within` channels (0: of its own)."""
    batch, channels, pixels = shape[0], shape[1], math.prod(shape[2:])
    if not within or not batch:
        return math.prod(shape)
    if layout == "channels_last":
        return (batch * pixels - 1) * within + channels
    return (batch - 1) * within * pixels + channels * pixels


def describes(info, dtype, layout, shape, within=0):
    size = convt_abi.STORAGE[dtype].itemsize * (extent(shape, layout, within) if within else math.prod(shape))
    return (info.dtype, info.layout, info.shape, info.bytes) == (dtype, layout, tuple(shape), size)


def check_infos(plan, result):
    case = result.case
    assert describes(plan.input, case.dtype, case.input_layout, oracle.logical(
        result.stored[0], case.input_layout).shape, case.within[0])
    assert describes(plan.weight, case.dtype, "channels_first", result.stored[1].shape)
    assert describes(plan.output, case.dtype, case.output_layout, result.output.shape, case.within[1])
    assert [info.name for info in plan.operands] == [operand.name for operand in result.operands]
    for info, operand in zip(plan.operands, result.operands):
        assert describes(info, operand.dtype, operand.layout or "channels_first", operand.shape), info.name


class Range:
    """A range of the channels of a tensor in memory, whose other channels are poison and stay so."""

    def __init__(self, shape, layout, within, dtype, offset, values=None):
        first = (within - shape[1]) // 2
        self.wide = Guarded(shape=oracle.memory_shape((shape[0], within, *shape[2:]), layout), dtype=dtype, offset=offset)
        whole = oracle.logical(self.wide.array, layout)
        self.array = whole[:, first:first + shape[1]]
        self.others = [whole[:, :first], whole[:, first + shape[1]:]]
        self.before = values
        if values is not None:
            self.array[...] = oracle.logical(values, layout)

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return self.array.ctypes.data

    def check(self):
        self.wide.check()
        for channels in self.others:
            assert (np.ascontiguousarray(channels).view(np.uint8) == POISON).all(), "written to other channels"


def from_struct(text, case):
    """The same problem through the struct."""
    prologue, chain = text[:text.index("conv_transpose")].rstrip("| "), text[text.index("conv_transpose"):].partition("|")[2]
    return convt_abi.Plan(convt_abi.Problem(
        dims=case.dims, dtype=convt_abi.DTYPES.index(case.dtype),
        input_layout=convt_abi.LAYOUTS.index(case.input_layout),
        output_layout=convt_abi.LAYOUTS.index(case.output_layout), batch_size=case.batch, in_channels=case.channels[0],
        out_channels=case.channels[1], groups=case.groups, chain=chain.encode(), prologue=prologue.encode(),
        input_within=case.within[0], output_within=case.within[1], **case.axes), engine="reference")


def run(plan, result, way=0):
    """Executes a plan: plainly (0), with a packed kernel (1), in a workspace of its own (2). The result in logical
    order."""
    case = result.case
    tensors = [Guarded(tensor, offset=way) for tensor in result.stored]
    dtype = convt_abi.STORAGE[case.dtype]
    output = Guarded(shape=oracle.memory_shape(result.output.shape, case.output_layout), dtype=dtype, offset=2 * way)
    input, kernel, *operands = [tensor.array for tensor in tensors]
    to = output.array
    if case.within[0]:
        shape = oracle.logical(result.stored[0], case.input_layout).shape
        tensors[0] = input = Range(shape, case.input_layout, case.within[0], dtype, way, result.stored[0])
    if case.within[1]:
        output = to = Range(result.output.shape, case.output_layout, case.within[1], dtype, 2 * way)
    workspace = Guarded(shape=(plan.workspace_size,), dtype=np.dtype("u1")) if way == 2 else None
    if way == 1:
        plan.pack_kernel(kernel)
        kernel = None
    plan.execute(input, kernel, operands, to, workspace and workspace.array)
    for buffer in filter(None, (*tensors, output, workspace)):
        buffer.check()
    return np.ascontiguousarray(to.array) if case.within[1] else oracle.logical(to, case.output_layout)


def check_case(text, seed, fill, engine, way):
    """None, "doubtful" when only the noise of an ill-conditioned chain explains the difference, or a complaint.

    The planner's algebra is exact for finite operands: those that it folds get no NaN and Inf unless the reference runs,
    which does without. Where it moved a sum or an average into the kernel, Inf - Inf need not show as NaN."""
    if fill == "special" and engine != "reference":
        fill = "special_tensors"
    result = oracle.evaluate(text, seed, fill)
    plan = convt_abi.Plan(text, engine=engine)
    assert plan.engine == engine
    check_infos(plan, result)
    output, dtype = run(plan, result, way), result.case.dtype
    moves = engine != "reference" and "moves into the kernel" in plan.explain()
    open_to = np.isnan(result.output) if moves else False
    message = oracle.mismatch(output, dtype, result.output, engine, doubtful=open_to)
    if message is None:
        return None
    moved, meaningless = oracle.doubt(text, seed, fill, result.output, oracle.rounding(engine, dtype), draws=8)
    message = oracle.mismatch(output, dtype, result.output, engine, 16 * moved, meaningless | open_to)
    return "doubtful" if message is None else message


def check_cases(cases, doubtful_allowed):
    """Runs triples of text, seed, fill on every engine; fails with the first complaints, in a form that can be
    repeated."""
    complaints, doubtful = [], dict.fromkeys(oracle.ENGINES, 0)
    for way, (text, seed, fill) in enumerate(cases):
        for engine in oracle.ENGINES:
            try:
                message = check_case(text, seed, fill, engine, way % 3)
            except (AssertionError, convt_abi.ConvtError, RuntimeError, ValueError) as error:
                message = f"{type(error).__name__}: {error}"
            if message == "doubtful":
                doubtful[engine] += 1
            elif message:
                complaints.append(f"{engine}, seed {seed}, {fill}: {text}\n    {message}")
    assert not complaints, "\n".join([f"{len(complaints)} of {len(cases)} cases:", *complaints[:10]])
    # Floats leave less room between a tolerance and what rounding errors grow to.
    for engine, allowed in (("reference", doubtful_allowed), ("cpu", 4 * doubtful_allowed)):
        assert doubtful[engine] <= allowed * len(cases), (
            f"{engine}: {doubtful[engine]} of {len(cases)} cases agree within noise only")


# ---- golden data


def test_golden_data_is_what_torch_gives():
    script = convt_abi.ROOT / "tests/golden/generate.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


# ---- random cases


def listed(seed, count):
    """Random cases, as `convt verify` makes them."""
    command = [convt_abi.COMMAND, "verify", "--list", "--seed", str(seed), "--cases", str(count)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    texts = [line.strip() for line in lines if "conv_transpose" in line]
    assert len(texts) == count
    return texts


def test_random_cases():
    print(f"CONVT_SWEEP_SEED={SEED} CONVT_SWEEP_CASES={CASES}")
    texts = listed(SEED, CASES)
    used = [oracle.parse(text) for text in texts]
    assert {case.dtype for case in used} == set(convt_abi.DTYPES)
    assert {case.dims for case in used} == {1, 2, 3}
    if CASES >= 1000:
        assert {op.name for case in used for op in case.chain} == set(oracle.vocabulary())
    check_cases([(text, SEED + i, fill_of(text)) for i, text in enumerate(texts)], doubtful_allowed=0.01)


def test_random_cases_with_nan_and_inf():
    print(f"CONVT_SWEEP_SEED={SEED} CONVT_SWEEP_CASES={CASES}")
    texts = listed(SEED + 1, CASES // 3)
    check_cases([(text, SEED + i, fill_of(text, "special")) for i, text in enumerate(texts)], doubtful_allowed=0.02)


def test_struct_and_canonical_text_say_the_same():
    for text in listed(SEED + 2, CASES // 10):
        plan = convt_abi.Plan(text)
        case = oracle.parse(text)
        if (case.prologue or any(case.within)) and not hasattr(convt_abi.Problem, "prologue"):
            continue
        assert from_struct(text, oracle.parse(text)).text == plan.text
        assert convt_abi.Plan(plan.text).text == plan.text
        assert oracle.parse(plan.text) == oracle.parse(text)


def test_same_bits_every_time():
    for i, text in enumerate(listed(SEED + 3, CASES // 10)):
        result = oracle.evaluate(text, i, fill_of(text))
        outputs = {run(convt_abi.Plan(text), result, way).tobytes() for way in (0, 1, 2, 0)}
        assert len(outputs) == 1, text


def test_sums_over_space():
    """The CPU engine's sums of boxes, also with shifts, groups and reductions over channels beside them."""
    texts = [f"{convolution} dtype={dtype} layout={layout} {chain}"
             for dtype in convt_abi.DTYPES for layout in ("channels_first", "channels_last")
             for convolution, chain in (
                 ("conv_transpose2d batch=2 channels=6->40 groups=2 input=9x20 kernel=4x3 stride=3x2 padding=2x1",
                  "| bias | global_avg_pool | relu"),
                 ("conv_transpose1d batch=3 channels=5->60 input=70 kernel=7 stride=2 dilation=3 output_padding=1",
                  "| bias | sum(axes=w) | mul(0.5)"),
                 ("conv_transpose3d channels=4->50 input=5x6x7 kernel=3 stride=2 padding=1",
                  "| mul(channel) | mean(axes=cdhw) | tanh"))]
    for text in texts:
        assert " sums\n" in convt_abi.Plan(text, engine="cpu").explain(), text
    check_cases([(text, i, fill) for i, text in enumerate(texts)
                 for fill in (fill_of(text), fill_of(text, "special"))], doubtful_allowed=0.1)


# ---- ops, from their own descriptions

CONVOLUTIONS = ["conv_transpose1d batch=2 channels=3->6 input=5 kernel=3 stride=2",
                "conv_transpose2d batch=2 channels=2->6 input=3x4 kernel=3 stride=2x1 padding=0x1",
                "conv_transpose3d batch=2 channels=2->6 input=3x2x4 kernel=2x3x3 stride=2 padding=0x0x1"]


@pytest.mark.parametrize("op", convt_abi.ops(), ids=lambda op: op["name"])
def test_op(op):
    """Each example, in each number of dimensions that it is legal in, in each dtype, alone and behind another op."""
    lines = op["examples"].splitlines()
    assert lines
    for example in lines:
        legal = 0
        for convolution in CONVOLUTIONS:
            try:
                convt_abi.Plan(f"{convolution} | {example}")
            except convt_abi.ConvtError as error:
                assert error.status == convt_abi.INVALID_ARGUMENT
                assert str(error).startswith(op["name"]), error
                continue
            legal += 1
            texts = [f"{convolution} dtype={dtype}{layout} | {before}{example}" for dtype in convt_abi.DTYPES
                     for layout in ("", " layout=channels_last") for before in ("", "mul(20) | ")]
            check_cases([(text, i, fill) for i, text in enumerate(texts)
                         for fill in (fill_of(text), fill_of(text, "special"))], doubtful_allowed=0.1)
        assert legal, example


# ---- the five problems

SPACE = {2: ["height", "width"], 3: ["depth", "height", "width"]}
LETTERS = {2: "hw", 3: "dhw"}


def layer_norm(y):
    return F.layer_norm(y.movedim(1, -1), y.shape[1:2], eps=1e-5).movedim(-1, 1)


# slug -> dimensions, bias, parameters after the padding, name of the scalar, result over (y, bias, scalar)
PROBLEMS = {
    "conv-transpose-2d-square-input-asym-kernel":
        (2, False, ["output_padding", "dilation", "groups"], None, lambda y, b, s: y),
    "conv-transpose-3d-asym-input-sq-kernel":
        (3, False, ["output_padding", "dilation", "groups"], None, lambda y, b, s: y),
    "conv-transpose3d-max-max-sum":
        (3, True, [], None, lambda y, b, s: F.max_pool3d(F.max_pool3d(y + b.reshape(-1, 1, 1, 1), 2), 3).sum(
            1, keepdim=True)),
    "conv-transpose3d-layernorm-gelu-scaling":
        (3, False, ["output_padding"], "scaling_factor", lambda y, b, s: F.gelu(layer_norm(y)) * s),
    "conv-transpose3d-sum-layernorm-avgpool-gelu":
        (3, False, ["output_padding"], "sum_weight", lambda y, b, s: F.gelu(F.avg_pool3d(layer_norm(y + s), 2))),
}


def parameter_names(slug):
    dims, _, more, scalar, _ = PROBLEMS[slug]
    names = ["batch_size", "in_channels", "out_channels", *SPACE[dims]]
    for name in ["kernel", "stride", "padding", *more]:
        names += [name] if name == "groups" else [f"{name}_{letter}" for letter in LETTERS[dims]]
    return names + ([scalar] if scalar else [])


def random_problem(rng, slug):
    """Sizes by name, with an output that is not empty."""
    dims, pooled = PROBLEMS[slug][0], 6 if "max-max" in slug else 2 if "avgpool" in slug else 1
    names = parameter_names(slug)
    groups = rng.choice([1, 1, 2, 3]) if "groups" in names else 1
    sizes = {"batch_size": rng.randint(1, 3), "in_channels": groups * rng.randint(1, 4),
             "out_channels": groups * rng.randint(1, 5), "groups": groups}
    for space, letter in zip(SPACE[dims], LETTERS[dims]):
        while True:
            size, kernel, stride = rng.randint(1, 6), rng.randint(1, 5), rng.randint(1, 4)
            dilation = rng.randint(1, 3) if f"dilation_{letter}" in names else 1
            more = rng.randint(0, max(stride, dilation) - 1) if f"output_padding_{letter}" in names else 0
            padding = rng.choice([0, rng.randint(0, 4)])
            if (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1 >= pooled:
                break
        sizes |= {space: size, f"kernel_{letter}": kernel, f"stride_{letter}": stride, f"padding_{letter}": padding,
                  f"output_padding_{letter}": more, f"dilation_{letter}": dilation}
    return sizes


def by_axis(sizes, dims, name):
    return tuple(sizes[f"{name}_{letter}"] for letter in LETTERS[dims])


def call_problem(slug, dtype, rng, sizes, engine):
    """Calls the C function on random data; the complaint about its result, if any."""
    dims, biased, _, scalar_name, chain = PROBLEMS[slug]
    names = parameter_names(slug)
    groups = sizes["groups"]
    shapes = [(sizes["batch_size"], sizes["in_channels"], *(sizes[name] for name in SPACE[dims])),
              (sizes["in_channels"], sizes["out_channels"] // groups, *by_axis(sizes, dims, "kernel"))]
    shapes += [(sizes["out_channels"],)] if biased else []
    seed, scalar = rng.getrandbits(32), rng.choice([0.0, 1.0, -0.375, rng.uniform(-3, 3)])
    stored = [oracle.round_to(oracle.data(seed, i, math.prod(shape), "signed", ""), dtype).reshape(shape)
              for i, shape in enumerate(shapes)]
    values = [torch.from_numpy(oracle.to_double(tensor, dtype)) for tensor in stored]
    y = getattr(F, f"conv_transpose{dims}d")(
        values[0], values[1], None, *(by_axis(sizes, dims, name) for name in ("stride", "padding", "output_padding")),
        groups, by_axis(sizes, dims, "dilation"))
    expected = chain(y, values[-1], scalar).numpy()

    counts = [sizes[name] for name in names if name != scalar_name]
    shape = (convt_abi.c.c_size_t * (dims + 2))()
    convt_abi.check(convt_abi.entry_point(slug, "output_shape", 0, len(counts))(*counts, shape))
    assert tuple(shape) == expected.shape

    tensors = [Guarded(tensor, offset=rng.randint(0, 3)) for tensor in stored]
    output = Guarded(shape=expected.shape, dtype=convt_abi.STORAGE[dtype], offset=rng.randint(0, 3))
    function = convt_abi.entry_point(slug, dtype, 3 + biased, len(counts), int(scalar_name is not None))
    pointers = [convt_abi.address(buffer.array) for buffer in (*tensors, output)]
    convt_abi.check(function(*pointers, *counts, *([scalar] if scalar_name else [])))
    for buffer in (*tensors, output):
        buffer.check()
    # A norm over few channels magnifies the last digit of its input up to 1/sqrt(eps) = 316 times.
    signs = torch.from_numpy(np.where(oracle.hashed(seed, -1, y.numel()) & np.uint64(1), 1.0, -1.0)).reshape(y.shape)
    last_digit = oracle.rounding(engine, dtype) * (y.abs().max() + abs(scalar))
    moved = chain(y + last_digit * signs, values[-1], scalar).numpy() - expected
    slack = 8 * abs(moved).max() if "layernorm" in slug else 0
    return oracle.mismatch(output.array, dtype, expected, engine, slack)


@pytest.mark.parametrize("engine", oracle.ENGINES)
@pytest.mark.parametrize("dtype", convt_abi.DTYPES)
@pytest.mark.parametrize("slug", PROBLEMS)
def test_problem(slug, dtype, engine, monkeypatch):
    monkeypatch.setenv("CONVT_ENGINE", engine)
    rng = random.Random(f"{SEED} {slug} {dtype}")
    print(f"CONVT_SWEEP_SEED={SEED}")
    for _ in range(max(CASES // 40, 10)):
        sizes = random_problem(rng, slug)
        message = call_problem(slug, dtype, rng, sizes, engine)
        assert message is None, f"{slug} {dtype} {sizes}: {message}"


@pytest.mark.parametrize("slug", PROBLEMS)
def test_problem_is_declared_and_described(slug):
    dims, biased, _, scalar, _ = PROBLEMS[slug]
    names = parameter_names(slug)
    header = (convt_abi.ROOT / "include/convt/convt.h").read_text(encoding="utf-8")
    elements = {"f32": "float", "f64": "double", "f16": "convt_f16", "bf16": "convt_bf16"}
    kinds = ["double" if name == scalar else "size_t" for name in names]
    for suffix in (*elements, "output_shape"):
        function = f"convt_{slug.replace('-', '_')}_{suffix}"
        declared = re.search(rf"CONVT_API convt_status {function}\(([^)]*)\)", header)[1]
        declared = [re.sub(r"\s+", " ", parameter).strip() for parameter in declared.split(",")]
        wanted = [f"{kind} {name}" for kind, name in zip(kinds, names)]
        if suffix == "output_shape":
            wanted = [parameter for parameter in wanted if parameter.startswith("size_t")]
            wanted += [f"size_t output_shape[{dims + 2}]"]
        else:
            element = elements[suffix]
            wanted = [f"const {element}* input", f"const {element}* kernel",
                      *([f"const {element}* conv_bias"] if biased else []), f"{element}* output", *wanted]
        assert declared == wanted
    described = {row["slug"]: row for row in convt_abi.named_problems()}[slug]
    assert described["parameters"].split() == names
    assert oracle.parse(described["benchmark_case"]).dims == dims
    convt_abi.Plan(described["benchmark_case"])
    check_cases([(described["demo_case"], SEED, "unit")], doubtful_allowed=0)


def test_there_are_five_problems():
    assert {row["slug"] for row in convt_abi.named_problems()} == set(PROBLEMS)


# ---- refusals


def refused_by_torch(text):
    try:
        oracle.evaluate(text, 1)
    except (RuntimeError, ValueError):
        return True
    return False


def refused_by_convt(text):
    try:
        convt_abi.Plan(text)
    except convt_abi.ConvtError as error:
        assert error.status == convt_abi.INVALID_ARGUMENT, error
        assert str(error) != "invalid_argument: "
        return True
    return False


def careless_case(rng):
    """A case with sizes drawn without much care for legality, and perhaps a pool or a norm with the same."""
    dims = rng.randint(1, 3)
    sizes = lambda low, high: "x".join(str(rng.randint(low, high)) for _ in range(dims))  # noqa: E731
    groups = rng.choice([1, 1, 2, 3])
    text = (f"conv_transpose{dims}d dtype=f64 channels={rng.choice([groups, 2 * groups, 5])}->{2 * groups} "
            f"input={sizes(1, 4)} kernel={sizes(1, 4)} stride={sizes(rng.choice([0, 1, 1, 1]), 3)} "
            f"padding={sizes(0, 2)} output_padding={sizes(0, 2)} dilation={sizes(rng.choice([0, 1, 1, 1]), 3)} "
            f"groups={groups}")
    pool = rng.choice(["", "", " | max_pool", " | avg_pool"])
    if pool:
        text += (f"{pool}({sizes(rng.choice([0, 1, 1]), 4)}, stride={sizes(1, 3)}, "
                 f"padding={sizes(0, 2)}{rng.choice(['', ', ceil'])}"
                 f"{rng.choice(['', ', count_include_pad=false']) if 'avg' in pool else ''})")
    elif rng.random() < 0.3:
        text += f" | group_norm({rng.randint(1, 6)})"
    return text


def test_refuses_what_torch_refuses_and_computes_the_rest():
    rng = random.Random(SEED)
    print(f"CONVT_SWEEP_SEED={SEED}")
    legal = []
    for _ in range(CASES):
        text = careless_case(rng)
        ours = refused_by_convt(text)
        assert ours == refused_by_torch(text), f"{'we' if ours else 'only PyTorch'} refuse: {text}"
        legal += [] if ours else [text]
    assert CASES // 10 < len(legal) < CASES - CASES // 10  # the draw was neither too careful nor too careless
    check_cases([(text, i, "signed") for i, text in enumerate(legal)], doubtful_allowed=0.01)


def test_refused_call_writes_nothing():
    slug = "conv-transpose3d-max-max-sum"
    sizes = [1, 2, 3, 2, 2, 2, 3, 3, 3, 1, 1, 1, 0, 0, 0]  # 4x4x4 leaves nothing after pools of 2 and 3
    stored = [np.zeros(1000, np.float32) for _ in range(3)]
    output = Guarded(shape=(1000,), dtype=np.dtype("f4"))
    function = convt_abi.entry_point(slug, "f32", 4, len(sizes))
    assert function(*map(convt_abi.address, stored), convt_abi.address(output.array), *sizes) == 1
    assert "max_pool" in convt_abi.last_error()
    assert (output.bytes == POISON).all()


def test_empty_batch():
    for slug, (dims, biased, _, scalar, _) in PROBLEMS.items():
        names = [name for name in parameter_names(slug) if name != scalar]
        sizes = [0 if name == "batch_size" else 4 if name in SPACE[3] + ["kernel_d", "kernel_h", "kernel_w"] else
                 0 if "padding" in name else 1 for name in names]
        shape = (convt_abi.c.c_size_t * (dims + 2))()
        convt_abi.check(convt_abi.entry_point(slug, "output_shape", 0, len(sizes))(*sizes, shape))
        assert shape[0] == 0
        kernel, bias = np.zeros(4**dims, np.float32), np.zeros(1, np.float32)
        pointers = [None, convt_abi.address(kernel), *([convt_abi.address(bias)] if biased else []), None]
        function = convt_abi.entry_point(slug, "f32", len(pointers), len(sizes), int(scalar is not None))
        convt_abi.check(function(*pointers, *sizes, *([1.0] if scalar else [])))
