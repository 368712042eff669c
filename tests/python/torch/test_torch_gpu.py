# SPDX-License-Identifier: Apache-2.0
"""On a GPU: results, streams, graphs, packing, the rule, and every model."""

from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt
import convt.torch
from convt.torch import _op

from models import MODELS, Model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU here"),
]
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.03, torch.float16: 5e-3}  # float32 products are in tf32


def close(got, want, tolerance):
    for a, b in zip(*(list(v) if isinstance(v, (tuple, list)) else [v] for v in (got, want)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        scale = max(1.0, float(b.abs().max()))
        assert float((a.float() - b.float()).abs().max()) <= tolerance * scale


@pytest.fixture(autouse=True)
def _tf32():
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        yield


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_function(dtype, last):
    x = torch.randn(4, 32, 24, 24, device="cuda", dtype=dtype)
    w, b = torch.randn(32, 48, 3, 3, device="cuda", dtype=dtype) * 0.1, torch.randn(48, device="cuda", dtype=dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    want = F.gelu(F.conv_transpose2d(x.double(), w.double(), b.double(), 2, 1, 1))
    got = convt.torch.conv_transpose2d(x, w, b, 2, 1, 1, epilogue="gelu")
    close(got, want.to(dtype), TOLERANCE[dtype])
    eager = F.conv_transpose2d(x, w, b, 2, 1, 1)
    assert convt.torch.conv_transpose2d(x, w, b, 2, 1, 1).stride() == eager.stride()


def test_precision_follows_torch():
    x, w = torch.rand(2, 64, 32, 32, device="cuda"), torch.rand(64, 64, 3, 3, device="cuda")
    want = F.conv_transpose2d(x.double(), w.double())
    errors = {}
    conv = getattr(torch.backends.cudnn, "conv", None)
    for precision in ("ieee", "tf32"):
        if conv is not None and hasattr(conv, "fp32_precision"):
            before, conv.fp32_precision = conv.fp32_precision, precision
            errors[precision] = float((convt.torch.conv_transpose2d(x, w) - want).abs().max() / want.abs().max())
            conv.fp32_precision = before
        else:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"):
                errors[precision] = float((convt.torch.conv_transpose2d(x, w) - want).abs().max() / want.abs().max())
    assert errors["ieee"] < 3e-6 and errors["tf32"] < 1e-3


def test_a_compiled_graph_follows_the_switch():
    """As it is when the graph runs, not when it was captured."""
    up = nn.ConvTranspose2d(64, 64, 3, bias=False).cuda()
    x = torch.rand(2, 64, 32, 32, device="cuda")
    want = F.conv_transpose2d(x.double(), up.weight.double()).relu()
    compiled = torch.compile(lambda x: F.relu(up(x)), backend="convt", options={"convt.take": "always", "convt.inner": "eager"})
    errors = []
    with torch.no_grad():
        for allowed in (True, False, True):
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
                errors.append(float((compiled(x) - want).abs().max() / want.abs().max()))
    assert errors[1] < 3e-6 < errors[0] == errors[2] < 1e-3


def test_deterministic_algorithms():
    """With new memory filled with NaN: the results' and the workspace's."""
    x, w = torch.randn(2, 32, 24, 24, device="cuda"), torch.randn(32, 32, 3, 3, device="cuda") * 0.1
    epilogue = "instance_norm | gelu | max_pool(2)"
    want = convt.torch.conv_transpose2d(x, w, epilogue=epilogue)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.utils.deterministic.fill_uninitialized_memory
        assert all(torch.equal(convt.torch.conv_transpose2d(x, w, epilogue=epilogue), want) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)


def test_gradients():
    x = torch.randn(2, 8, 9, 9, device="cuda", dtype=torch.float64, requires_grad=True)
    w = torch.randn(8, 6, 3, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    b = torch.randn(6, device="cuda", dtype=torch.float64, requires_grad=True)
    got = torch.autograd.grad(convt.torch.conv_transpose2d(x, w, b, 2, epilogue="silu").square().sum(), [x, w, b])
    want = torch.autograd.grad(F.silu(F.conv_transpose2d(x, w, b, 2)).square().sum(), [x, w, b])
    torch.testing.assert_close(got, want)


def test_current_stream():
    """Work is ordered by the stream it was called on, and another one does not wait."""
    x, w = torch.zeros(8, 32, 64, 64, device="cuda"), torch.ones(32, 32, 3, 3, device="cuda")
    convt.torch.conv_transpose2d(x, w)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.fill_(1)
        y = convt.torch.conv_transpose2d(x, w)
        assert not stream.query()
    stream.synchronize()
    assert float(y[0, 0, 10, 10]) == 32 * 9


def test_graph_capture():
    module = convt.torch.nn.ConvTranspose2d(32, 32, 3, epilogue="gelu", device="cuda")
    for freeze in (False, True):
        if freeze:
            module.freeze()
        x = torch.randn(4, 32, 32, 32, device="cuda")
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                module(x)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = module(x)
            convt.torch.clear_plans()  # a plan that the graph uses stays
            for _ in range(2):
                x.normal_()
                graph.replay()
                torch.cuda.synchronize()
                close(y, F.gelu(F.conv_transpose2d(x, module.weight, module.bias)), 2e-3)


def test_a_packed_plan_is_not_made_in_a_capture():
    module = convt.torch.nn.ConvTranspose2d(16, 16, 3, device="cuda").freeze()
    x = torch.randn(1, 16, 20, 20, device="cuda")
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = module(x)
        graph.replay()
        torch.cuda.synchronize()
        close(y, F.conv_transpose2d(x, module.weight, module.bias), 2e-3)


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_models(model: Model):
    module = model.build().cuda()
    inputs = [x.cuda() for x in model.example()]
    options = {"convt.take": "always", "convt.inner": "eager"}
    with torch.no_grad():
        compiled = torch.compile(module, backend="convt", options=options)
        close(compiled(*inputs), module(*inputs), 2e-3)
        with torch.autocast("cuda", torch.bfloat16):
            close(torch.compile(module, backend="convt", options=options)(*inputs), module(*inputs), 0.06)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 64, 3, 2, 1, 1)
        self.norm = nn.BatchNorm2d(64)

    def forward(self, x):
        return F.relu(self.norm(self.up(x)))


def test_rule():
    x = torch.randn(8, 64, 128, 128, device="cuda", dtype=torch.bfloat16)
    model = Decoder().cuda().eval().bfloat16()
    with torch.no_grad():
        found = convt.torch.explain(model, x, quiet=True).found[0]
        hopper = torch.cuda.get_device_capability() == (9, 0)
        assert found.taken == hopper
        if hopper:  # one pass of convt's, two of Inductor's
            pointwise = convt.torch.explain(nn.Sequential(model.up, nn.Tanh(), nn.Softmax(1)), x, quiet=True).found[0]
            assert pointwise.ops[-1] == "softmax"
        for mode in (None, "reduce-overhead"):
            compiled = torch.compile(model, backend="convt", mode=mode)
            for _ in range(3):
                close(compiled(x), model(x), 0.03)


def test_call_cost():
    """At most 10 us of host time over convt_plan_execute()."""
    if not convt.torch.has_extension:
        pytest.fail("libconvt_torch.so is missing")
    x, w = torch.randn(1, 8, 4, 4, 4, device="cuda"), torch.randn(8, 8, 2, 2, 2, device="cuda")
    y = convt.torch.conv_transpose3d(x, w)
    plan = convt.Plan("conv_transpose3d precision=tf32 channels=8->8 input=4 kernel=2", device="cuda:0")
    stream = torch.cuda.current_stream().cuda_stream
    workspace = torch.empty(max(plan.workspace_size, 1), dtype=torch.uint8, device="cuda")

    def raw():
        plan.run_pointers(x.data_ptr(), w.data_ptr(), y.data_ptr(), [], workspace=workspace.data_ptr(),
                          workspace_size=plan.workspace_size, stream=stream)

    def best(function):
        times = []
        for _ in range(30):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                function()
            times.append((time.perf_counter() - start) / 20)
        return min(times)

    assert best(lambda: convt.torch.conv_transpose3d(x, w)) - best(raw) <= 10e-6
    assert _op.extension is not None
