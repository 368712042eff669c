# SPDX-License-Identifier: Apache-2.0
"""PyTorch's switches for the precision of float32 are obeyed when a call runs, also one that was captured before."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt.torch
from convt.torch import _kernel, _op, _precision

CUDA = torch.device("cuda")
ALWAYS = {"convt.take": "always", "convt.inner": "eager"}


@pytest.fixture
def switch(monkeypatch):
    """Stands for PyTorch's switch; there is none for the CPU."""
    state = {"now": "ieee"}
    monkeypatch.setattr(_precision, "float32_precision", lambda device: state["now"])
    return lambda precision: state.update(now=precision)


@pytest.fixture(params=["library", "Python"])
def made(request):
    """How many plans a call makes: plans of different precision are different."""
    convt.torch.clear_plans()
    _kernel.plans.clear()

    def plans(call):
        before = convt.torch.plan_count() + (len(_kernel.plans) if _op.extension is not None else 0)
        call(_op.conv_transpose if request.param == "library" else _kernel.run)
        return convt.torch.plan_count() + (len(_kernel.plans) if _op.extension is not None else 0) - before

    return plans


def test_operators_ask_when_they_run(switch, made):
    x, w = torch.randn(2, 3, 5, 7), torch.randn(3, 4, 3, 3)

    def call(run):
        got = run(x, w, [], "stride=2 precision=torch | relu", "", 0)
        torch.testing.assert_close(got, F.conv_transpose2d(x, w, stride=2).relu(), atol=1e-4, rtol=1e-4)

    assert made(call) == 1 and made(call) == 0
    switch("tf32")
    assert made(call) == 1 and made(call) == 0
    switch("ieee")
    assert made(call) == 0


def test_the_plan_s_text(switch):
    convt.torch.clear_plans()
    _kernel.plans.clear()
    x, w = torch.randn(2, 3, 5, 7), torch.randn(3, 4, 3, 3)
    for precision in ("ieee", "tf32"):
        switch(precision)
        _kernel.run(x, w, [], "stride=2 precision=torch", "", 0)
        assert f"precision={precision}" in [key[0] for key in _kernel.plans._plans][-1]


def test_a_captured_graph_asks_again(switch, monkeypatch):
    """Nothing is compiled anew, and a graph's text names no precision of its own."""
    monkeypatch.setattr(_precision, "of_graph", lambda device: "torch")
    model, x = nn.Sequential(nn.ConvTranspose2d(4, 8, 3, stride=2), nn.ReLU()), torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        found = convt.torch.explain(model, x, options=ALWAYS, quiet=True).found[0]
        assert found.taken and "precision=torch" in found.text
        compiled = torch.compile(model, backend="convt", options=ALWAYS, fullgraph=True)
        want = model(x)
        convt.torch.clear_plans()
        counts = []
        for precision in ("ieee", "tf32", "ieee"):
            switch(precision)
            torch.testing.assert_close(compiled(x), want, atol=1e-4, rtol=1e-4)
            counts.append(convt.torch.plan_count())
    assert counts == [1, 2, 2]


def test_direct_calls_are_captured_without_one():
    """Under Dynamo, and under the modes by which PyTorch traces."""
    assert _precision.of_call(CUDA) in ("ieee", "tf32") and _precision.of_call(torch.device("cpu")) == "ieee"
    compiled = torch.compile(lambda x: (x, _precision.of_call(CUDA)), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1))[1] == "torch"
    with torch._subclasses.FakeTensorMode():
        assert _precision.of_call(CUDA) == "torch"


def test_switches():
    """The newer one, and the older where PyTorch has both."""
    conv = getattr(torch.backends.cudnn, "conv", None)
    if hasattr(conv, "fp32_precision"):
        before = conv.fp32_precision
        for precision in ("ieee", "tf32"):
            conv.fp32_precision = precision
            assert convt.torch.float32_precision(CUDA) == precision
        conv.fp32_precision = before
    for allowed in (False, True):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
            assert convt.torch.float32_precision(CUDA) == ("tf32" if allowed else "ieee")
    assert convt.torch.float32_precision(torch.device("cpu")) == "ieee"
