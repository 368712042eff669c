# SPDX-License-Identifier: Apache-2.0
"""The functions on NumPy arrays and on other libraries' arrays, and plans, against PyTorch in float64."""

import copy
import itertools
import pickle
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import convt
from arrays import ARRANGED, BFLOAT16, FUNCTIONS, TORCH, channels_last, check, double, numbers, spread
from convt import _functional, ops

pytest.importorskip("hypothesis")  # a GPU's machine may lack it
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402


@st.composite
def configurations(draw):
    dims = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    axes = [(draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2)))
            for _ in range(dims)]  # input, kernel, stride, dilation
    padding = [draw(st.integers(0, min(1, (i - 1) * s + d * (k - 1)) // 2)) for i, k, s, d in axes]
    output_padding = [draw(st.integers(0, max(s, d) - 1)) for _, _, s, d in axes]
    return {"dims": dims, "batch": draw(st.integers(0, 2)), "channels": (groups * draw(st.integers(1, 3)),
            draw(st.integers(1, 3))), "groups": groups, "input": [a[0] for a in axes], "kernel": [a[1] for a in axes],
            "stride": [a[2] for a in axes], "dilation": [a[3] for a in axes], "padding": padding,
            "output_padding": output_padding, "bias": draw(st.booleans()), "single": draw(st.booleans()),
            "dtype": draw(st.sampled_from([np.dtype("f4"), np.dtype("f8"), np.dtype("f2"), BFLOAT16])),
            "arranged": draw(st.tuples(*[st.sampled_from(sorted(ARRANGED))] * 2)),
            "out": draw(st.sampled_from([None, "contiguous", "channels_last"]))}


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(configurations())
def test_convolution(case):
    """Any configuration, element type and strides."""
    dims, dtype = case["dims"], case["dtype"]
    x = numbers((case["batch"], case["channels"][0], *case["input"]), dtype)
    w = numbers((case["channels"][0], case["channels"][1], *case["kernel"]), dtype, 1)
    b = numbers(case["channels"][1] * case["groups"], dtype, 2) if case["bias"] else None
    single = case["single"] and case["batch"] == 1
    arguments = case["stride"], case["padding"], case["output_padding"], case["groups"], case["dilation"]
    expected = TORCH[dims](double(x), double(w), None if b is None else double(b), *arguments)
    x, w = (ARRANGED[how](array) for how, array in zip(case["arranged"], (x, w)))
    out = None
    if case["out"]:
        out = ARRANGED[case["out"]](np.full(expected.shape, np.nan, dtype))
    if single:
        x, expected, out = x[0], expected[0], None if out is None else out[0]
    before = x.tobytes(), w.tobytes()
    result = FUNCTIONS[dims](x, w, b, *arguments, out=out)
    check(result, expected, dtype)
    assert (x.tobytes(), w.tobytes()) == before
    assert out is None or result is out
    if out is None and not single:  # a result lies as its input does
        is_last = case["arranged"][0] == "channels_last" and not x.flags.c_contiguous
        assert (np.moveaxis(result, 1, -1) if is_last else result).flags.c_contiguous


CHAINS = {
    "pointwise": (lambda o: [ops.leaky_relu(0.1), ops.mul(0.5), ops.add(-1.5), ops.clamp(-1, 1)],
                  lambda y, o: torch.clamp(F.leaky_relu(y, 0.1) * 0.5 - 1.5, -1, 1)),
    "text and objects": (lambda o: ["bias | relu", ops.add(o["whole"]), " ", "mul(channel) | gelu(tanh)"],
                         lambda y, o: F.gelu((F.relu(y + o["c"]) + o["whole"]) * o["d"], approximate="tanh")),
    "channels in every shape": (lambda o: [ops.add(o["c"].ravel()), ops.sub(o["d"]), ops.mul(o["d"][None])],
                                lambda y, o: (y + o["c"] - o["d"]) * o["d"]),
    "norms": (lambda o: [ops.layer_norm(channels=True, weight=o["c"].ravel(), bias=o["d"].ravel()),
                         ops.group_norm(2, 1e-3, weight=o["d"], bias=o["c"]), ops.instance_norm()],
              lambda y, o: F.instance_norm(F.group_norm(F.layer_norm(y.movedim(1, -1), (4,), o["c"].ravel(),
                                                                     o["d"].ravel()).movedim(-1, 1),
                                                        2, o["d"].ravel(), o["c"].ravel(), 1e-3))),
    "given statistics": (lambda o: [ops.batch_norm(o["c"], abs(o["d"]) + 1, o["d"], o["c"]),
                                    ops.batch_norm(o["d"], abs(o["c"]) + 1)],
                         lambda y, o: F.batch_norm(F.batch_norm(y, o["c"].ravel(), abs(o["d"].ravel()) + 1,
                                                                o["d"].ravel(), o["c"].ravel()),
                                                   o["d"].ravel(), abs(o["c"].ravel()) + 1)),
    "pools and reductions": (lambda o: [ops.max_pool((2, 1), stride=(1, 2)), ops.avg_pool(2, ceil=True), ops.softmax(),
                                        ops.sum()],
                             lambda y, o: F.softmax(F.avg_pool2d(F.max_pool2d(y, (2, 1), (1, 2)), 2, ceil_mode=True),
                                                    1).sum(1, keepdim=True)),
    "the convolution again": (lambda o: ["sigmoid", ops.mul("conv")], lambda y, o: torch.sigmoid(y) * y),
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", CHAINS)
def test_chain(name, layout):
    chain, expected_of = CHAINS[name]
    x, w = numbers((2, 3, 4, 5)), numbers((3, 4, 3, 2), seed=1)
    o = {"c": numbers((4, 1, 1), seed=2), "d": numbers((4, 1, 1), seed=3), "whole": numbers((2, 4, 9, 10), seed=4)}
    expected = expected_of(F.conv_transpose2d(double(x), double(w), None, 2),
                           {key: double(value) for key, value in o.items()})
    given_apart = [o["c"].ravel(), o["d"]] if name == "text and objects" else []
    result = convt.conv_transpose2d(ARRANGED[layout](x), w, stride=2, epilogue=chain(o), operands=given_apart)
    result = result.astype("f8")
    assert abs(result - expected.numpy()).max() <= 1e-5 * abs(expected).max()


@pytest.mark.parametrize("dtype", ["f2", BFLOAT16, "f8"])
def test_float32_operands_of_other_types(dtype):
    """Norms' weights and biases in float32 beside data of another type."""
    x, w = numbers((1, 2, 3), dtype), numbers((2, 4, 2), dtype, 1)
    c, whole = numbers(4, "f4", 2), numbers((1, 4, 4), "f4", 3)
    result = convt.conv_transpose1d(x, w, c, epilogue=[ops.add(whole), ops.layer_norm(channels=True, weight=c, bias=c)])
    y = (F.conv_transpose1d(double(x), double(w), double(c)) + double(whole)).movedim(1, -1)
    check(result, F.layer_norm(y, (4,), double(c), double(c)).movedim(-1, 1), dtype)
    mixed = ops.layer_norm(channels=True, weight=c, bias=c.astype(dtype))
    with pytest.raises(convt.ConvtError, match="layer_norm.bias: expected f32"):
        convt.conv_transpose1d(x, w, epilogue=mixed)


def test_every_example_of_the_table_as_an_object():
    """Each example's text comes out of a call of the op's function, and its operands are those of a plan."""
    for row in convt._op_table.rows():
        function = getattr(ops, row.name)
        for example in row.examples:
            name, _, inside = example.rstrip(")").partition("(")
            positional, named = [], {}
            for argument in filter(None, inside.split(", ")):
                key, equals, value = argument.partition("=")
                number = {"true": True, "false": False}.get(value or key)
                if not equals and key in {p.name for p in row.parameters if p.named}:
                    named[key] = True
                elif equals:
                    named[key] = value if key in ("dtype", "axes") else float(value) if number is None and "." in value else (
                        int(value) if number is None else number)
                else:
                    positional.append(key if key.isalpha() else float(key) if "." in key else int(key))
            op = function(*positional, **named)
            text = f"conv_transpose3d channels=2->6 input=3 kernel=3 stride=2 | {op}"
            plan = convt.Plan(text)
            assert plan.text == convt.Plan(f"{text.partition('|')[0]}| {example}").text, example
            names = [info.name.partition(".")[2] for info in plan.operands]
            assert names == list(row.operands)[:len(names)], example
            assert function.__doc__.startswith(row.about[:1].upper())


def test_numbers_are_written_exactly():
    for value in (0.1, 1e-30, 1e30, -3.0, float("inf"), np.float32(0.1), np.float64(1) / 3, np.array(0.25), 7):
        text = f"conv_transpose1d channels=1->1 input=1 kernel=1 | {ops.add(value)}"
        result = convt.Plan(text + "| mul(1)").run(np.zeros((1, 1, 1), "f4"), np.zeros((1, 1, 1), "f4"))
        assert result == np.float32(float(value))
    assert str(ops.clamp(max=2)) == "clamp(max=2)"
    assert str(ops.max_pool(np.array([1, 2]), stride=[2, 3])) == "max_pool(1x2, stride=2x3)"


def test_ops_refuse_what_they_do_not_take():
    with pytest.raises(TypeError, match="unexpected keyword argument 'slop'"):
        ops.leaky_relu(slop=1)
    with pytest.raises(TypeError, match="layer_norm.. was given weight, and needs bias"):
        ops.layer_norm(channels=True, weight=np.ones(3))
    with pytest.raises(TypeError, match="batch_norm.. was given mean, and needs var"):
        ops.batch_norm(np.ones(3))
    op = pickle.loads(pickle.dumps(ops.add(np.ones(3, "f4"))))
    assert (str(op), op.text_for(False), op.operands[0].tolist()) == ("add(channel)", "add(channel, dtype=f32)", [1.0] * 3)
    assert repr(copy.deepcopy(op)) == "convt.ops: add(channel), with 1 operand"


X, W = numbers((1, 2, 4, 4)), numbers((2, 3, 3, 3), seed=1)
WRONG = {
    "input: expected shape": lambda out: convt.conv_transpose2d(X[0, 0], W, out=out),
    "weight: expected 4 axes": lambda out: convt.conv_transpose2d(X, W[0], out=out),
    "weight: expected 2 in_channels": lambda out: convt.conv_transpose2d(X, W[:1], out=out),
    "weight: expected f32": lambda out: convt.conv_transpose2d(X, W.astype("f8"), out=out),
    "input: element type int32": lambda out: convt.conv_transpose2d(X.astype("i4"), W, out=out),
    "input: element type uint16": lambda out: convt.conv_transpose2d(X.astype("u2"), W, out=out),
    "padding: must be at least 0": lambda out: convt.conv_transpose2d(X, W, padding=-1, out=out),
    "stride: expected one size or 2": lambda out: convt.conv_transpose2d(X, W, stride=(1, 1, 1), out=out),
    "stride: must be at least 0 and below": lambda out: convt.conv_transpose2d(X, W, stride=2**64 + 1, out=out),
    "groups: must divide": lambda out: convt.conv_transpose2d(X, W, groups=3, out=out),
    "groups: must be at least 0": lambda out: convt.conv_transpose2d(X, W, groups=-1, out=out),
    "groups: must be at least 1": lambda out: convt.conv_transpose2d(X, W, groups=0, out=out),
    "output_padding_h: must be smaller": lambda out: convt.conv_transpose2d(X, W, output_padding=1, out=out),
    "chain: column 8: unknown op 'gelo'": lambda out: convt.conv_transpose2d(X, W, epilogue=["relu", "gelo"], out=out),
    "precision: expected one of": lambda out: convt.conv_transpose2d(X, W, precision="fp8", out=out),
    "bias.other: expected f32 of shape": lambda out: convt.conv_transpose2d(X, W, np.ones(2, "f4"), out=out),
    "operands: bias.other is missing": lambda out: convt.conv_transpose2d(X, W, epilogue="bias", out=out),
    "operands: expected 0": lambda out: convt.conv_transpose2d(X, W, operands=[X], out=out),
    "add.other: expected f32 of shape": lambda out: convt.conv_transpose2d(X, W, epilogue=ops.add(X), out=out),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message):
    """Each is refused with the argument's name, and nothing is written."""
    out = np.full((1, 3, 6, 6), np.nan, np.float32)
    with pytest.raises(convt.ConvtError, match=message) as raised:
        WRONG[message](out)
    assert raised.value.status == "invalid_argument"
    assert np.isnan(out).all()


def test_wrong_outputs():
    right = np.empty((1, 3, 6, 6), np.float32)
    frozen = right.copy()
    frozen.flags.writeable = False
    for out, message in [(right[..., :5], "out"), (right.astype("f8"), "out: expected f32 of"), (frozen, "out: must be writable"),
                         (np.empty((1, 3, 6, 12), "f4")[..., ::2], "out: must be contiguous"),
                         (right.astype(">f4"), "out: must be writable, aligned, and in the machine's byte order")]:
        with pytest.raises(convt.ConvtError, match=message):
            convt.conv_transpose2d(X, W, out=out)
    memory = np.zeros(X.size + right.size, np.float32)
    with pytest.raises(convt.ConvtError, match="overlap"):
        convt.conv_transpose2d(memory[:X.size].reshape(X.shape), W, out=memory[2:2 + right.size].reshape(right.shape))
    with pytest.raises(TypeError, match="input: expected a NumPy array or one that has __dlpack__ .got list"):
        convt.conv_transpose2d([[1.0]], W)
    with pytest.raises(TypeError, match="epilogue: expected operations of convt.ops or text .got int"):
        convt.conv_transpose2d(X, W, epilogue=[3])


def test_foreign_and_unaligned_arrays_are_copied():
    expected = convt.conv_transpose2d(X, W)
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("f4").reshape(X.shape)
    assert not unaligned.flags.aligned
    records = np.zeros(X.shape, [("value", "f4"), ("mark", "u2")])  # their strides are no multiples of 4 bytes
    records["value"] = X
    for x in (X.astype(">f4"), unaligned, X.view(np.recarray), records["value"]):
        assert (convt.conv_transpose2d(x, W) == expected).all()
    out = np.zeros(expected.shape, records.dtype)
    with pytest.raises(convt.ConvtError, match="out: must be writable, aligned"):
        convt.conv_transpose2d(X, W, out=out["value"])


class Exported:
    """An array that speaks DLPack and nothing else, in its older form or in that of 1.0."""

    def __init__(self, array, versioned, device=None):
        self.array, self.versioned, self.device = array, versioned, device or (1, 0)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        if "max_version" in arguments and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**arguments)


def test_dlpack():
    expected = convt.conv_transpose2d(X, W)
    for versioned, arrange in itertools.product((False, True), (np.ascontiguousarray, spread, channels_last)):
        out = np.empty_like(expected)
        arrays = [Exported(arrange(array), versioned) for array in (X, W)]
        result = convt.conv_transpose2d(*arrays)
        assert isinstance(result, np.ndarray) and np.allclose(result, expected, atol=1e-6)
        convt.conv_transpose2d(*arrays, out=Exported(out, versioned))
        assert np.allclose(out, expected, atol=1e-6)
    frozen = expected.copy()
    frozen.flags.writeable = False
    with pytest.raises(convt.ConvtError, match="out: must be writable"):
        convt.conv_transpose2d(X, W, out=Exported(frozen, True))
    with pytest.raises(convt.ConvtError, match="input: element type"):
        convt.conv_transpose2d(Exported(X.astype("i8"), True), W)
    with pytest.raises(convt.ConvtError, match="neither in the host's memory nor in a CUDA device's .DLPack device type 10"):
        convt.conv_transpose2d(Exported(X, True, (10, 0)), W)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_arrays_of_pytorch_as_any_library_s(dtype):
    x, w, b = (torch.from_numpy(array).to(dtype) for array in (X, W, numbers(3, seed=2)))
    expected = F.conv_transpose2d(x.double(), w.double(), b.double())
    for arranged in (x, x.to(memory_format=torch.channels_last), x[:, :, ::2].repeat_interleave(1, 2)):
        expected = F.conv_transpose2d(arranged.double(), w.double(), b.double())
        result = convt.conv_transpose2d(arranged, w, b)
        assert result.dtype == dtype and type(result) is torch.Tensor
        assert torch.allclose(result.double(), expected, atol=2e-2 if dtype.itemsize == 2 else 1e-5)
        assert result.is_contiguous(memory_format=torch.channels_last) == (arranged.stride(1) == 1)
    with pytest.raises(BufferError):
        convt.conv_transpose2d(x.requires_grad_(), w)


def test_plans_are_kept_and_bounded():
    _functional._plan.cache_clear()
    for _ in range(3):
        convt.conv_transpose2d(X, W, stride=[1, 1], epilogue=[ops.add(0.5)])
    information = _functional._plan.cache_info()
    assert (information.misses, information.hits) == (1, 2)
    for count in range(information.maxsize + 10):
        convt.conv_transpose1d(np.ones((1, 1, 1 + count), "f4"), np.ones((1, 1, 1), "f4"))
    assert _functional._plan.cache_info().currsize == information.maxsize


def test_precision():
    assert "tf32" not in _functional._plan(*_key("ieee")).text
    assert "precision=tf32" in _functional._plan(*_key("tf32")).text


def _key(precision):
    return 1, "f32", "channels_first", 0, "channels_first", 0, precision, None, (1, 1, 3), (1, 1, 2), 1, (1,), (0,), (0,), (1,), "", ""


def test_weights_are_not_kept():
    w = W.copy()
    first = convt.conv_transpose2d(X, w)
    w *= 2
    assert (convt.conv_transpose2d(X, w) == 2 * first).all()


# ---- plans


def test_plan_tells_what_it_is():
    plan = convt.Plan("conv_transpose2d dtype=bf16 layout=channels_first->channels_last batch=2 channels=3->4 input=5x6 "
                      "kernel=3 | layer_norm(channels, affine, dtype=f32) | add(tensor)")
    assert plan.text.startswith("conv_transpose2d dtype=bf16") and plan.device == "cpu" and plan.engine
    assert plan.input == ("input", (2, 3, 5, 6), "bf16", "channels_first", 2 * 3 * 30 * 2, 0, (90, 30, 6, 1))
    assert plan.weight.shape == (3, 4, 3, 3)
    assert plan.output == ("output", (2, 4, 7, 8), "bf16", "channels_last", 2 * 4 * 56 * 2, 0, (224, 1, 32, 4))
    assert [(info.name, info.shape, info.dtype, info.layout, info.stage) for info in plan.operands] == [
        ("layer_norm.weight", (4,), "f32", "channels_first", 0), ("layer_norm.bias", (4,), "f32", "channels_first", 0),
        ("add.other", (2, 4, 7, 8), "bf16", "channels_last", 1)]
    assert "layer_norm" in plan.explain() and plan.workspace_size >= 0 and plan.products()[0] > 0 and plan.handle
    assert repr(plan) == f"convt.Plan({plan.text!r}, device='cpu')"
    assert convt.Plan("conv_transpose1d channels=1->1 input=3 kernel=2", engine="reference").engine == "reference"
    for text, options, message in [("conv_transpose1d", {}, "channels"), (plan.text, {"engine": "no"}, "engine"),
                                   (plan.text, {"device": "tpu"}, "device: expected"),
                                   (plan.text, {"device": "cpu:1"}, "device: expected")]:
        with pytest.raises(convt.ConvtError, match=message):
            convt.Plan(text, **options)


def test_plan_packs_weights():
    plan = convt.Plan("conv_transpose2d channels=2->3 input=4 kernel=3")
    with pytest.raises(convt.ConvtError, match="weight: must be given"):
        plan.run(X)
    expected = plan.run(X, W)
    w = W.copy()
    plan.pack(spread(w))
    w[...] = 0
    assert (plan.run(X) == expected).all()
    with pytest.raises(convt.ConvtError, match="weight: expected f32 of shape"):
        plan.pack(W[:, :2])
    assert (plan.run(X) == expected).all()
    plan.pack(2 * W)
    assert (plan.run(X) == 2 * expected).all()
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="packed weight"):
            copying(plan)


def test_plan_is_copied_and_pickled():
    plan = convt.Plan("conv_transpose2d dtype=f64 channels=2->3 input=4 kernel=3 precision=tf32 | gelu", engine="reference")
    for other in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert (other.text, other.engine, other.device) == (plan.text, plan.engine, plan.device)


def test_plan_of_bfloat16_as_bits():
    """Without ml_dtypes, bfloat16 is uint16."""
    plan = convt.Plan("conv_transpose2d dtype=bf16 channels=2->3 input=4 kernel=3")
    expected = plan.run(X.astype(BFLOAT16), W.astype(BFLOAT16))
    result = plan.run(X.astype(BFLOAT16).view("u2"), W.astype(BFLOAT16).view("u2"))
    assert expected.dtype == BFLOAT16 and result.dtype == np.uint16
    assert (result == expected.view("u2")).all()


def test_plan_with_threads():
    """Runs beside packings give the result of the one weight or of the other: the plan that runs is not packed into."""
    plan = convt.Plan("conv_transpose2d channels=2->3 input=4 kernel=3")
    running = plan._native
    plan.pack(W)
    assert plan._native is not running
    first, second = plan.run(X), 2 * plan.run(X)
    failures = []

    def run():
        for _ in range(200):
            result = plan.run(X)
            if not ((result == first).all() or (result == second).all()):
                failures.append(result)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        plan.pack(W * (1 + turn % 2))
    for thread in threads:
        thread.join()
    assert not failures


def test_plan_refuses_wrong_arrays():
    plan = convt.Plan("conv_transpose2d channels=2->3 input=4 kernel=3 | bias")
    b, out = numbers(3), np.full((1, 3, 6, 6), np.nan, np.float32)
    for arguments, message in [((X[:, :1], W, [b]), "input: expected f32 of shape .1, 2, 4, 4. .got f32 of shape .1, 1, 4, 4"),
                               ((X.astype("f8"), W, [b]), "input: expected f32 of shape"),
                               ((X, W[:, :2], [b]), "weight: expected"), ((X, W, []), "operands: expected 1 .bias.other; got 0"),
                               ((X, W, [b.reshape(1, 3)]), "bias.other: expected"),
                               ((X, W, [b.reshape(1, 3, 1, 1, 1)]), "bias.other: expected")]:
        with pytest.raises(convt.ConvtError, match=message):
            plan.run(*arguments, out=out)
        assert np.isnan(out).all()
    last = convt.Plan("conv_transpose2d layout=channels_last channels=2->3 input=4 kernel=3")
    with pytest.raises(convt.ConvtError, match="out: must be channels_last without gaps"):
        last.run(X, W, out=out)
    with pytest.raises(convt.ConvtError, match="output"):
        plan.run_pointers(X.ctypes.data, W.ctypes.data, 0, [b.ctypes.data])
    with pytest.raises(convt.ConvtError, match="operand"):
        plan.run_pointers(X.ctypes.data, W.ctypes.data, out.ctypes.data)


# ---- the named problems


def layer_norm(y):
    return F.layer_norm(y.movedim(1, -1), y.shape[1:2]).movedim(-1, 1)


PROBLEMS = {
    "conv_transpose_2d_square_input_asym_kernel": (2, {"dilation": 2, "groups": 2, "output_padding": (1, 0)}, {},
                                                   lambda y, b: y),
    "conv_transpose_3d_asym_input_sq_kernel": (3, {"stride": (1, 2, 2), "groups": 2, "output_padding": (0, 1, 1)}, {},
                                               lambda y, b: y),
    "conv_transpose3d_max_max_sum": (3, {"stride": 3, "padding": 1}, {}, lambda y, b: F.max_pool3d(
        F.max_pool3d(y + b.reshape(-1, 1, 1, 1), 2), 3).sum(1, keepdim=True)),
    "conv_transpose3d_layernorm_gelu_scaling": (3, {"stride": 2, "padding": 1}, {"scaling_factor": 0.3},
                                                lambda y, b: F.gelu(layer_norm(y)) * 0.3),
    "conv_transpose3d_sum_layernorm_avgpool_gelu": (3, {"stride": 2, "output_padding": 1}, {"sum_weight": -1.5},
                                                    lambda y, b: F.gelu(F.avg_pool3d(layer_norm(y - 1.5), 2))),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_named_problem(name):
    dims, sizes, scalars, expected_of = PROBLEMS[name]
    function = getattr(convt.problems, name)
    groups = sizes.get("groups", 1)
    x, w = numbers((2, 4, 4, 5, 6)[:dims + 2]), numbers((4, 4 // groups, 3, 3, 3)[:dims + 2], seed=1)
    b = numbers(4, seed=2)
    y = TORCH[dims](double(x), double(w), **sizes)
    expected = expected_of(y, double(b))
    tensors = (x, w, b) if "conv_bias" in function.__code__.co_varnames else (x, w)
    result = function(*tensors, **sizes, **scalars)
    assert abs(result.astype("f8") - expected.numpy()).max() <= 1e-5 * abs(expected).max()
    out = np.empty_like(result)
    assert function(*tensors, **sizes, **scalars, out=out) is out and (out == result).all()
    assert convt.Plan(function.demo_case).text == function.demo_case
    with pytest.raises(TypeError):
        function(*tensors, unknown=1)


def test_named_problems_are_the_table_s():
    assert set(convt.problems.__all__) == set(PROBLEMS)
    for name in PROBLEMS:
        assert getattr(convt.problems, name).slug.replace("-", "_") == name
