# SPDX-License-Identifier: Apache-2.0
"""torch.compile's doors: the backend with its options, enable(), caches, freezing, explain(), and what must be left."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt.torch
from convt.torch.compile import rewrite as rewrite_module
from convt.torch.compile import spellings
from convt.torch.compile.backend import Pass

EAGER = {"convt.take": "always", "convt.inner": "eager"}


class Net(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.conv = nn.ConvTranspose2d(4, channels, 3, stride=2)
        self.norm = nn.InstanceNorm2d(channels)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


def explained(model, *inputs):
    with torch.no_grad():
        return convt.torch.explain(model, *inputs, options=EAGER, quiet=True)


def test_enable_chains_what_is_there():
    seen = []

    def before(graph):
        seen.append(len(graph.nodes))

    torch._inductor.config.pre_grad_custom_pass = before
    try:
        convt.torch.enable(take="always")
        convt.torch.enable(take="always")  # twice is once
        assert convt.torch.is_enabled()
        assert torch._inductor.config.pre_grad_custom_pass.before is before
        model, x = Net(), torch.randn(2, 4, 5, 5)
        calls = []
        original = rewrite_module.rewrite

        def spy(graph, options):
            calls.append(original(graph, options))
            return calls[-1]

        from convt.torch.compile import backend

        backend.rewrite = spy
        try:
            with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
                torch.testing.assert_close(torch.compile(model)(x), model(x))
        finally:
            backend.rewrite = original
        assert seen and [found.taken for report in calls for found in report] == [True]
        convt.torch.disable()
        assert not convt.torch.is_enabled() and torch._inductor.config.pre_grad_custom_pass is before
    finally:
        torch._inductor.config.pre_grad_custom_pass = None


def test_uuid():
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Other(CustomGraphPass):
        def __call__(self, graph):
            pass

        def uuid(self):
            return "other"

    options = rewrite_module.Options()
    assert Pass(None, options).uuid() == Pass(None, options).uuid()
    assert Pass(Other(), options).uuid() != Pass(None, options).uuid()
    assert Pass(lambda graph: None, options).uuid() is None  # as without us: nothing is cached


PROGRAM = """
import json, torch, convt.torch
from torch import nn
from torch._dynamo import register_backend, list_backends
from torch._dynamo.utils import counters
torch.set_num_threads(1)
if "convt" not in list_backends():
    register_backend(convt.torch.backend, name="convt")
torch.manual_seed(0)
def error(channels, compile):
    model = nn.Sequential(nn.ConvTranspose2d(4, channels, 3, stride=2), nn.InstanceNorm2d(channels), nn.ReLU())
    x = torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        return float((compile(model)(x) - model(x)).abs().max())


error_of_backend = error(8, lambda model: torch.compile(model, backend="convt", options={"convt.take": "always"}))
convt.torch.enable(take="always")
error = max(error_of_backend, error(6, torch.compile))
print(json.dumps({"error": error, "hits": counters["inductor"]["fxgraph_cache_hit"],
                  "misses": counters["inductor"]["fxgraph_cache_miss"]}))
"""


def test_second_process_hits_the_cache(tmp_path):
    """By both doors."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    results = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-3000:]
        results.append(json.loads(run.stdout.splitlines()[-1]))
    assert all(result["error"] < 1e-5 for result in results)
    assert results[0]["misses"] == 2 and results[1]["hits"] == 2 and results[1]["misses"] == 0


def test_options_and_modes():
    model, x = Net(), torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        for take in ("rule", "never", "measure"):
            compiled = torch.compile(model, backend="convt", options={"convt.take": take, "convt.inner": "eager"})
            torch.testing.assert_close(compiled(x), model(x))
        torch._dynamo.reset()
        with pytest.raises(Exception, match="convt.take is one of"):
            torch.compile(model, backend="convt", options={"convt.take": "sometimes"})(x)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="convt", mode="reduce-overhead")
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_freezing_packs_once(inner):
    """Under Inductor's freezing a weight is packed; its contents are not read again, as the user promised."""
    model, x = Net(), torch.randn(2, 4, 5, 5)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled = torch.compile(model, backend="convt", options={**EAGER, "convt.inner": inner})
        want = model(x)
        torch.testing.assert_close(compiled(x), want)
        model.conv.weight.zero_()
        torch.testing.assert_close(compiled(x), want)


def test_rule_leaves_and_takes():
    with torch.no_grad():
        tiny = convt.torch.explain(nn.ConvTranspose2d(2, 2, 3), torch.randn(1, 2, 4, 4), quiet=True)
        batch = convt.torch.explain(nn.ConvTranspose2d(2, 2, 3), torch.randn(2, 2, 4, 4), quiet=True)
        large = convt.torch.explain(nn.ConvTranspose2d(32, 32, 3, stride=2), torch.randn(1, 32, 32, 32), quiet=True)
        weights = convt.torch.explain(nn.ConvTranspose2d(100, 256, 4), torch.randn(1, 100, 1, 1), quiet=True)
        plain = convt.torch.explain(nn.ConvTranspose3d(32, 64, (3, 5, 5)), torch.randn(2, 32, 16, 16, 16), quiet=True)
        strided = convt.torch.explain(nn.ConvTranspose3d(16, 16, 3, stride=2), torch.randn(2, 16, 8, 8, 8), quiet=True)
    assert not plain.found[0].taken and "stride 1" in plain.found[0].reason
    assert strided.found[0].taken
    assert not tiny.found[0].taken and "tiny" in tiny.found[0].reason
    assert large.found[0].taken and batch.found[0].taken  # a batch is oneDNN's, which is slow to begin
    assert not weights.found[0].taken and "packed" in weights.found[0].reason


class Cosine(nn.Module):
    """Not in the vocabulary."""

    def forward(self, x):
        return torch.cos(x)


def test_explain_prints(capsys):
    model = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.ReLU(), Cosine())
    with torch.no_grad():
        result = convt.torch.explain(model, torch.randn(2, 4, 5, 5), options={"convt.take": "always"})
    printed = capsys.readouterr().out
    assert "1 of 1 transposed convolutions are taken" in printed and "bias | relu" in printed and "cos" in printed
    assert result.found[0].ops == ("bias", "relu") and result.found[0].ended_by == "cos"


# ---- what must stay as it is


def test_hooks_see_their_values():
    model, x, seen = Net(), torch.randn(2, 4, 5, 5), []
    model.conv.register_forward_hook(lambda module, inputs, output: seen.append(output.clone()))
    with torch.no_grad():
        want = model(x)
        got = torch.compile(model, backend="convt", options=EAGER)(x)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(seen[1], seen[0])


def test_hooks_keep_their_modules():
    model = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.ReLU(), nn.Tanh())
    model[1].register_forward_hook(lambda module, inputs, output: output + 1)
    want = model(x := torch.randn(2, 4, 5, 5))
    report = convt.torch.optimize(model)
    assert report.swaps[0].modules == [] and "hooks" in report.swaps[0].reason
    torch.testing.assert_close(model(x), want)


def test_training_mode_norms_are_left():
    model = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
    found = explained(model, torch.randn(2, 4, 5, 5)).found[0]
    assert found.ops == ("bias",) and found.ended_by == "batch_norm"
    found = explained(model.eval(), torch.randn(2, 4, 5, 5)).found[0]
    assert found.ops == ("bias", "batch_norm(affine)", "relu")


def test_in_graph_autocast():
    class Inside(Net):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = self.conv(x)
            return F.relu(y)

    model, x = Inside(), torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        want = model(x)
        got = torch.compile(model, backend="convt", options=EAGER)(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.float(), want.float(), atol=0.03, rtol=0.03)


def test_an_unexpected_error_leaves_the_graph(monkeypatch):
    def broken(running, node):
        raise KeyError("no such thing")

    monkeypatch.setitem(spellings.SPELLINGS, "leaky_relu", broken)
    model, x = Net(), torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="convt", options=EAGER)(x), model(x))
    found = explained(model, x).found[0]
    assert not found.taken and "KeyError" in found.reason


def test_the_operator_itself_compiles():
    w = torch.randn(4, 3, 3, 3)
    compiled = torch.compile(lambda x: convt.torch.conv_transpose2d(x, w, stride=2, epilogue="gelu") * 2,
                             backend="aot_eager", fullgraph=True)
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(compiled(x), F.gelu(F.conv_transpose2d(x, w, stride=2)) * 2)


@pytest.mark.parametrize("shape", [(4, 5, 5), (0, 4, 5, 5), (1, 4, 1, 1)])
def test_odd_inputs(shape):
    model = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.ReLU())
    x = torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="convt", options=EAGER)(x), model(x))


def test_channels_last():
    model, x = Net().to(memory_format=torch.channels_last), torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last)
    model = nn.Sequential(model.conv, nn.ReLU(), nn.MaxPool2d(2))
    with torch.no_grad():
        want, got = model(x), torch.compile(model, backend="convt", options=EAGER)(x)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got, want)
    assert explained(model, x).found[0].ops == ("bias", "relu", "max_pool(2)")


def test_explain_says_where_prologues_begin():
    up, p = nn.ConvTranspose2d(4, 6, 4, 2, 1), nn.Parameter(torch.rand(4, 1, 1))
    x = torch.randn(2, 4, 5, 6)

    def begins(before):
        (found,) = explained(lambda x: up(before(x)), x)
        return " | ".join(found.prologue), found.begins_behind, found.begin_reason

    assert begins(lambda x: x) == ("", "", "it is given to the graph")
    assert begins(lambda x: F.relu(x) * p) == ("relu | mul(channel)", "", "it is given to the graph")
    assert begins(lambda x: F.gelu(x.flip(2))) == ("gelu", "flip", "the vocabulary has no such operation")
    assert begins(lambda x: F.softmax(x, 1).tanh()) == (
        "tanh", "softmax", "it sees more than one element and numbers of its channel")
    assert begins(lambda x: F.relu_(x)) == ("", "relu", "it writes into a tensor that others may see")
    assert begins(lambda x: (x * 2)[:, :, 1:] * 3) == ("mul(3)", "getitem", "its shape or type changes there")

    def shared(x):
        y = x.exp()
        return up(y), y

    (found,) = explained(shared, x)
    assert (found.begins_behind, found.begin_reason) == ("exp", "its result is used 2 times")
    assert "begins: exp: its result is used 2 times; ends: " in str(found)


def test_explain_says_why_broadcasts_are_left():
    """Terms of several images or pixels, but fewer elements than the result: none is spread out."""
    up, x = nn.ConvTranspose2d(4, 6, 4, 2, 1), torch.randn(2, 4, 5, 6)

    def ends(*shape):
        term = torch.rand(shape)
        (found,) = explained(lambda x: F.relu(up(x) * term), x)
        assert found.ops == ("bias",)
        return found.reason.removeprefix("the other term is broadcast ").partition(":")[0]

    assert ends(2, 6, 1, 1) == "over space" and ends(2, 1, 10, 12) == "over channels"
    assert ends(1, 6, 10, 12) == "over the batch" and ends(1, 1, 10, 12) == "over the batch and channels"
    assert ends(6, 10, 1) == "over the batch"


def test_explain_lists_what_is_inside_of_others():
    up, x = nn.ConvTranspose2d(4, 6, 4, 2, 1), torch.randn(2, 4, 5, 6)

    def branches(x):
        return torch.cond(x.sum() > 0, lambda t: F.relu(up(t)), lambda t: up(t).tanh(), (x,))

    assert [(found.taken, found.reason) for found in explained(branches, x)] == [(False, "it is inside of cond")] * 2
