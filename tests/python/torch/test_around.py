# SPDX-License-Identifier: Apache-2.0
"""What stands around a call: prologues, ranges of channels, concatenations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import convt
import convt.torch
from convt import _library
from convt.torch import _cat, _chain, _op, _reference
from convt.torch.compile.vocabulary import is_pointwise

OURS = {3: convt.torch.conv_transpose1d, 4: convt.torch.conv_transpose2d, 5: convt.torch.conv_transpose3d}
OPS = [line for row in _library.describe_ops() for line in row["examples"].splitlines()]
BEFORE = list(dict.fromkeys(
    text for text in (line.replace(", dtype=f32", "").replace("dtype=f32", "").replace("()", "") for line in OPS)
    if is_pointwise(text)))


def test_prologues_have_the_pointwise_ops():
    names = {text.partition("(")[0] for text in BEFORE}
    assert {"leaky_relu", "prelu", "snake", "batch_norm", "bias", "add", "pow", "gelu", "clamp"} <= names
    assert not names & {"layer_norm", "softmax", "max_pool", "sum", "keep", "instance_norm"}


@pytest.mark.parametrize("text", BEFORE)
def test_gradients_of_prologues(text):
    """Of every op that may stand there, for input, weight and each operand, in float64; padding is zeros behind it."""
    positive = text.partition("(")[0] in ("sqrt", "log", "pow")
    whole = f"{'abs | add(0.5) | ' if positive else ''}{text} | conv_transpose stride=2 padding=1 | bias | tanh"
    x, w = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(3, 2, 3, dtype=torch.float64)
    call = _chain.parse(whole, 1)
    operands = [torch.rand(3, dtype=torch.float64) + 0.5 for _ in range(call.prologue_operands)]
    operands.append(torch.randn(2, dtype=torch.float64))
    for tensor in (x, w, *operands):
        tensor.requires_grad_()

    def run(x, w, *operands):
        return _op.conv_transpose(x, w, list(operands), whole, "", 0)

    torch.testing.assert_close(run(x, w, *operands), _reference.run(x, w, operands, call))
    assert torch.autograd.gradcheck(run, (x, w, *operands), atol=1e-6)
    results = (run(x, w, *operands), _op.call(x, w, operands, whole))
    want, got = (torch.autograd.grad(y.square().sum(), (x, w, *operands)) for y in results)
    torch.testing.assert_close(got, want)


def test_prologue_of_functions_and_modules():
    x, w, b = torch.randn(2, 3, 4, 5), torch.randn(3, 4, 3, 3), torch.randn(4)
    slope, gain = torch.rand(3), torch.rand(4)
    want = F.conv_transpose2d(F.prelu(x + 1, slope), w, b, 2, 1) * gain[:, None, None]
    before, after = [convt.ops.add(1), convt.ops.prelu(slope)], [convt.ops.mul(gain)]
    got = convt.torch.conv_transpose2d(x, w, b, 2, 1, prologue=before, epilogue=after)
    torch.testing.assert_close(got, want)
    got = convt.torch.conv_transpose2d(
        x, w, b, 2, 1, prologue="add(1) | prelu", epilogue="mul(channel)", operands=[slope, gain])
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(convt.torch.conv_transpose2d(x[0], w, b, 2, 1, prologue=before, epilogue=after), want[0])
    module = convt.torch.nn.ConvTranspose2d(
        3, 4, 3, 2, 1, prologue=[convt.ops.add(1), convt.ops.prelu(torch.nn.Parameter(slope))], epilogue=after)
    module.weight, module.bias = torch.nn.Parameter(w), torch.nn.Parameter(b)
    torch.testing.assert_close(module(x), want)
    assert "prelu" in repr(module) and "prologue_1_0" in dict(module.named_parameters())
    with pytest.raises(RuntimeError, match="prologue"):
        convt.torch.conv_transpose2d(x, w, prologue="softmax")


def test_prologue_under_autocast_and_vmap():
    x, w, slope = torch.randn(3, 2, 4, 5), torch.randn(4, 2, 3), torch.rand(4)

    def ours(x):
        return convt.torch.conv_transpose1d(x, w, prologue=[convt.ops.prelu(slope)], epilogue="relu")

    want = F.relu(F.conv_transpose1d(F.prelu(x.flatten(0, 1), slope), w)).unflatten(0, (3, 2))
    torch.testing.assert_close(torch.vmap(ours)(x), want)
    with torch.autocast("cpu", torch.bfloat16):
        got = ours(x[0])
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want[0], atol=0.1, rtol=0.05)


# ---- ranges of channels


def wide(shape, channels, first, channels_last, dtype):
    """A tensor of so many channels, full of sentinels, and the range of `shape` in it."""
    whole = torch.full((shape[0], channels, *shape[2:]), 7.0, dtype=dtype)
    if channels_last:
        whole = whole.movedim(1, -1).contiguous().movedim(-1, 1)
    return whole, whole[:, first : first + shape[1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [(False, False), (True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(1, 3, 6), (3, 3, 4, 5), (2, 1, 3, 4), (1, 5, 1, 1), (2, 3, 2, 3, 2)], ids=str)
def test_ranges(shape, last, dtype):
    """A range is read and written where it lies, to the same bits, and nothing else is touched."""
    x, w = torch.randn(shape).to(dtype), torch.randn(shape[1], 2, *[3] * (len(shape) - 2)).to(dtype)
    convolve = OURS[len(shape)]
    want = convolve(x, w, stride=2, epilogue="gelu")
    source_whole, source = wide(shape, shape[1] + 4, 1, last[0], dtype)
    source.copy_(x)
    target_whole, target = wide(want.shape, 7, 3, last[1], dtype)
    convt.torch.clear_plans()
    assert convolve(source, w, stride=2, epilogue="gelu", out=target) is target
    assert torch.equal(target, want)
    for whole, part, first in ((source_whole, shape[1], 1), (target_whole, 2, 3)):
        others = [c for c in range(whole.shape[1]) if not first <= c < first + part]
        assert bool((whole[:, others] == 7).all())
    assert torch.equal(convolve(source, w, stride=2, epilogue="gelu"), want)


def test_ranges_are_not_copied(monkeypatch):
    """By the addresses that the kernels in Python pass on, which take the same decisions."""
    from convt.torch import _kernel

    seen = []
    run = _kernel.Plan.run_pointers
    monkeypatch.setattr(
        _kernel.Plan, "run_pointers", lambda plan, *given, **named: (seen.append(given), run(plan, *given, **named))[1])
    whole, joined = torch.randn(2, 7, 4, 5), torch.empty(2, 9, 8, 10).to(memory_format=torch.channels_last)
    x, out = whole[:, 2:5], joined[:, 4:6]
    _kernel.run(x, torch.randn(3, 2, 2, 2), [], "stride=2", out=out)
    assert seen[0][0] == x.data_ptr() and seen[0][2] == out.data_ptr()
    _kernel.run(whole[:, ::2], torch.randn(4, 2, 2, 2), [], "stride=2", out=joined[:, ::5])
    assert seen[1][0] != whole.data_ptr() and seen[1][2] != joined.data_ptr()


def test_ranges_refused():
    x, w = torch.randn(2, 3, 4, 4), torch.randn(3, 4, 2, 2)
    joined = torch.full((2, 9, 8, 8), 7.0)
    for out in (joined[:, :3], joined[:, 1:6], joined[:, 5:, ::2], joined[:, 6:]):
        with pytest.raises(RuntimeError, match="out|within"):
            convt.torch.conv_transpose2d(x, w, stride=2, out=out)
    assert bool((joined == 7).all())


# ---- concatenations


def cat_arguments(**kind):
    x, w, b = torch.randn(2, 3, 4, 5, **kind), torch.randn(3, 2, 2, 2, **kind), torch.randn(2, **kind)
    before, after = [torch.randn(2, 1, 8, 10, **kind)], [torch.randn(2, 3, 8, 10, **kind), torch.randn(2, 2, 8, 10, **kind)]
    return x, w, [b], "relu | conv_transpose stride=2 | bias | tanh", before, after


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_cat(layout):
    x, w, operands, text, before, after = cat_arguments()
    got = _cat.conv_transpose_cat(x, w, operands, text, layout, 0, before, after)
    want = torch.cat([*before, torch.tanh(F.conv_transpose2d(F.relu(x), w, operands[0], 2)), *after], 1)
    torch.testing.assert_close(got, want)
    assert got.is_contiguous(memory_format=torch.channels_last if layout == "channels_last" else torch.contiguous_format)
    torch.testing.assert_close(_cat.conv_transpose_cat(x, w, operands, text, layout, 0, [], []), want[:, 1:3])


@pytest.mark.parametrize("grad", [False, True])
def test_cat_opcheck(grad):
    x, w, operands, text, before, after = cat_arguments(requires_grad=grad)
    torch.library.opcheck(_cat.conv_transpose_cat, (x, w, operands, text, "channels_first", 0, before, after))


def test_cat_gradients():
    x, w, (b,), text, (first,), (second, third) = cat_arguments(dtype=torch.float64, requires_grad=True)

    def run(x, w, b, first, second, third):
        return _cat.conv_transpose_cat(x, w, [b], text, "channels_first", 0, [first], [second, third])

    assert torch.autograd.gradcheck(run, (x, w, b, first, second, third), atol=1e-6)
    (only,) = torch.autograd.grad(run(x, w.detach(), b, first.detach(), second, third).square().sum(), [second])
    torch.testing.assert_close(only, 2 * second)
    stacked = torch.vmap(lambda x, first: run(x, w, b, first, second, third))(torch.stack([x, -x]), torch.stack([first] * 2))
    torch.testing.assert_close(stacked[1], run(-x, w, b, first, second, third))
