# SPDX-License-Identifier: Apache-2.0
"""convt.torch's functions against PyTorch in float64, over random configurations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import convt
import convt.torch
from convt.torch import _chain, _reference

pytest.importorskip("hypothesis")  # a GPU's machine may lack it
from hypothesis import HealthCheck, assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

FUNCTIONS = (convt.torch.conv_transpose1d, convt.torch.conv_transpose2d, convt.torch.conv_transpose3d)
TORCH = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.02, torch.float16: 3e-3}
CHAINS = (
    "", "relu", "gelu | mul(0.5)", "leaky_relu(0.2) | max_pool(2)", "layer_norm(channels) | silu", "instance_norm",
    "softmax", "sum | tanh", "global_avg_pool", "add(0.5) | clamp(0, 1) | logsumexp", "avg_pool(2, stride=1, ceil)")


@st.composite
def cases(draw):
    dims = draw(st.integers(1, 3))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(dims))  # noqa: E731
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    stride, dilation = each(1, 3), each(1, 2)
    return {
        "dims": dims, "groups": groups, "stride": stride, "dilation": dilation, "padding": each(0, 2),
        "output_padding": tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation)),
        "batch": draw(st.integers(0, 3)), "input": each(1, 5), "kernel": each(1, 4),
        "channels": (groups * draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        "dtype": draw(st.sampled_from(list(TOLERANCE))), "bias": draw(st.booleans()),
        "last": draw(st.tuples(st.booleans(), st.booleans())), "chain": draw(st.sampled_from(CHAINS)),
    }


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_random(case):
    dims, groups = case["dims"], case["groups"]
    fields = [case[key] for key in ("stride", "padding", "output_padding")]
    x = torch.randn(case["batch"], case["channels"][0], *case["input"], dtype=torch.float64)
    w = torch.randn(case["channels"][0], case["channels"][1], *case["kernel"], dtype=torch.float64)
    b = torch.randn(case["channels"][1] * groups, dtype=torch.float64) if case["bias"] else None
    dtype = case["dtype"]
    x, w = x.to(dtype), w.to(dtype)
    b = None if b is None else b.to(dtype)
    if dims > 1:
        x = x.to(memory_format=FORMATS[dims + 2]) if case["last"][0] else x
        w = w.to(memory_format=FORMATS[dims + 2]) if case["last"][1] else w
    wide = [None if t is None else t.double() for t in (x, w, b)]
    call = _chain.parse(_chain.fields(*fields, groups, case["dilation"], "ieee", case["chain"]), dims)
    try:
        y = TORCH[dims - 1](*wide, *fields, groups, case["dilation"])
        want = _reference.chain(y, [], call)
    except (RuntimeError, ValueError):
        assume(False)
    assume(all(size > 0 for size in (*y.shape[1:], *want.shape[1:])))
    got = FUNCTIONS[dims - 1](x, w, b, *fields, groups, case["dilation"], epilogue=case["chain"])
    assert got.dtype == dtype and got.shape == want.shape
    if got.numel():
        scale = max(1.0, float(y.abs().max()))
        assert float((got.double() - want).abs().max()) <= TOLERANCE[dtype] * scale
    if not case["chain"] and dtype != torch.float64 and case["batch"]:
        eager = TORCH[dims - 1](x, w, b, *fields, groups, case["dilation"])
        assert all(size == 1 or a == e for size, a, e in zip(got.shape, got.stride(), eager.stride()))


def test_out_and_without_a_batch():
    x, w, b = torch.randn(2, 3, 4, 5), torch.randn(3, 4, 3, 3), torch.randn(4)
    want = F.conv_transpose2d(x, w, b, 2)
    for out in (torch.empty(2, 4, 9, 11), torch.empty(2, 4, 9, 11).to(memory_format=torch.channels_last),
                torch.empty(2, 8, 9, 11)[:, ::2]):
        assert convt.torch.conv_transpose2d(x, w, b, 2, out=out) is out
        torch.testing.assert_close(out, want)
    torch.testing.assert_close(convt.torch.conv_transpose2d(x[0], w, b, 2), want[0])
    with pytest.raises(RuntimeError, match="out"):
        convt.torch.conv_transpose2d(x, w, b, 2, out=torch.empty(2, 4, 9, 10))
    with pytest.raises(RuntimeError, match="no gradients"):
        convt.torch.conv_transpose2d(x, w.requires_grad_(), b, 2, out=torch.empty(2, 4, 9, 11))


def test_epilogue_objects():
    x, w = torch.randn(2, 3, 5, 5), torch.randn(3, 4, 3, 3)
    weight, bias, addend = torch.rand(4), torch.rand(4), torch.randn(2, 4, 7, 7)
    ops = [convt.ops.layer_norm(channels=True, weight=weight, bias=bias), convt.ops.add(addend), convt.ops.gelu()]
    got = convt.torch.conv_transpose2d(x, w, epilogue=ops)
    y = F.layer_norm(F.conv_transpose2d(x, w).movedim(1, -1), (4,), weight, bias).movedim(-1, 1)
    torch.testing.assert_close(got, F.gelu(y + addend))
    # Operands of float32 beside bfloat16 tensors stay float32.
    got = convt.torch.conv_transpose2d(x.bfloat16(), w.bfloat16(), epilogue=ops)
    torch.testing.assert_close(got.float(), F.gelu(y + addend), atol=0.1, rtol=0.1)


@pytest.mark.parametrize(("change", "message"), [
    (lambda a: {**a, "weight": a["weight"].double()}, "dtype|float64"),
    (lambda a: {**a, "weight": torch.randn(5, 4, 3, 3)}, "input channels"),
    (lambda a: {**a, "weight": torch.randn(3, 4, 3)}, "axes"),
    (lambda a: {**a, "epilogue": "gelo"}, "gelo"),
    (lambda a: {**a, "epilogue": "bias"}, "operands"),
    (lambda a: {**a, "epilogue": "add(tensor)", "operands": [torch.ones(2, 4, 7, 6)]}, "operand"),
    (lambda a: {**a, "epilogue": "add(channel)", "operands": [torch.ones(5)]}, "operand"),
    (lambda a: {**a, "padding": 9}, "padding|output"),
])
def test_refusals(change, message):
    arguments = change({"input": torch.randn(2, 3, 5, 5), "weight": torch.randn(3, 4, 3, 3)})
    with pytest.raises(RuntimeError, match=message):
        convt.torch.conv_transpose2d(**arguments)


def test_threads_follow_torch():
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            convt.torch.conv_transpose1d(torch.randn(1, 2, 5), torch.randn(2, 2, 3))
            assert convt.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_plans_are_bounded():
    convt.torch.clear_plans()
    convt.torch.set_plan_limit(4)
    try:
        for size in range(1, 12):
            convt.torch.conv_transpose1d(torch.randn(1, 2, size), torch.randn(2, 2, 3))
        assert convt.torch.plan_count() == 4
    finally:
        convt.torch.set_plan_limit(256)
