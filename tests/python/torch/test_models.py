# SPDX-License-Identifier: Apache-2.0
"""The models, eager against torch.compile(backend="convt") and optimize()."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.utils import counters

import convt.torch
from convt.torch.compile.rewrite import rewrite

from models import MODELS, Model

ALWAYS = {"convt.take": "always", "convt.inner": "eager"}
each = pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
most = pytest.mark.parametrize(
    "model", [pytest.param(model, id=model.name, marks=[pytest.mark.full] if model.brief else []) for model in MODELS])


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def check(got, want, tolerance):
    for a, b in zip(flat(got), flat(want), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        scale = max(1.0, float(b.abs().max()))
        assert float((a - b).abs().max()) <= tolerance * scale


def test_count():
    assert len(MODELS) >= 60
    assert sum(model.short for model in MODELS) >= 8
    assert len({model.name for model in MODELS}) == len(MODELS)


def chain_of(found):
    """What was taken, as models say it."""
    if not found.taken:
        return None
    before = (*found.prologue, "conv_transpose") if found.prologue else ()
    return " | ".join((*before, *found.ops, *(("cat",) if found.joined else ())))


@pytest.fixture
def reports(monkeypatch):
    """What became of the graphs."""
    reports = []

    def recorded(graph, options):
        reports.append(rewrite(graph, options))
        return reports[-1]

    monkeypatch.setattr("convt.torch.compile.backend.rewrite", recorded)
    return reports


@each
def test_inference(model: Model, reports):
    """Every chain is the one that is expected, and taken, in one graph."""
    module = model.build()
    inputs = model.example()
    with torch.no_grad():
        compiled = torch.compile(module, backend="convt", options=ALWAYS, fullgraph=True)
        check(compiled(*inputs), module(*inputs), 2e-5)
    # One graph, and those inside of checkpoints.
    assert [chain_of(one) for found in reports for one in found] == list(model.chains)


@most
def test_dynamic(model: Model):
    """Sizes change, and nothing is compiled again."""
    module = model.build()

    def graphs(compiled):
        counters.clear()
        with torch.no_grad():
            for grown in (1, 2, 4):  # a batch of one would be special
                inputs = model.example(grown)
                check(compiled(*inputs), module(*inputs), 2e-5)
        return counters["stats"]["unique_graphs"]

    count = graphs(torch.compile(module, backend="convt", options=ALWAYS, dynamic=True))
    if count != 1:  # PyTorch 2.11 itself compiles two of the models anew
        torch._dynamo.reset()
        assert count == graphs(torch.compile(module, backend="eager", dynamic=True))


@most
def test_autocast(model: Model, reports):
    module = model.build()
    inputs = model.example()
    compiled = torch.compile(module, backend="convt", options=ALWAYS)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        want = module(*inputs)
        got = compiled(*inputs)
    if model.autocast is not None:
        chains = [chain_of(one) for found in reports for one in found]
        words = (", dtype=f32", "(dtype=f32)")
        assert [chain and chain.replace(words[0], "").replace(words[1], "") for chain in chains] == list(model.autocast)
    for a, b in zip(flat(got), flat(want), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        scale = max(1.0, float(b.abs().max()))
        assert float((a.float() - b.float()).abs().max()) <= 0.06 * scale


def loss(result: torch.Tensor) -> torch.Tensor:
    """Weights its elements, so that no norm makes it a constant."""
    weights = torch.rand(result.shape, generator=torch.Generator().manual_seed(7))
    return (result.square() * weights).sum()


@most
def test_training(model: Model, request: pytest.FixtureRequest):
    """A step in training mode: results, gradients and running statistics.

    Gradients are recorded by the operator itself, or through AOTAutograd, as with Inductor: for some models in the short run.
    """
    through_aot = model.short or request.config.getoption("--full")
    options = {"convt.take": "always", "convt.inner": "aot_eager" if through_aot else "eager"}
    module = model.build(training=True)
    for part in module.modules():  # dropout draws other numbers in another order
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
    twin = copy.deepcopy(module)
    inputs = model.example()
    if not model.trains:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            sum(one.sum() for one in flat(module(*inputs))).backward()
        return
    copies = [tensor.clone() for tensor in inputs]  # some models write into theirs
    want = module(*inputs)
    got = torch.compile(twin, backend="convt", options=options)(*copies)
    check(got, want, 2e-5)
    for result in (want, got):
        sum(loss(one) for one in flat(result) if one.requires_grad).backward()
    # Some gradients are sums that cancel: they are as exact as the largest.
    scale = max(float(b.grad.abs().max()) for b in module.parameters() if b.grad is not None)
    for (name, a), b in zip(twin.named_parameters(), module.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            assert float((a.grad - b.grad).abs().max()) <= 1e-4 * scale, name
    for (name, a), b in zip(twin.named_buffers(), module.buffers(), strict=True):
        assert torch.allclose(a.float(), b.float(), atol=1e-5), name


@pytest.mark.parametrize("model", [model for model in MODELS if model.autocast], ids=lambda model: model.name)
def test_autocast_training(model: Model):
    """Gradients are about as near to those of float32 as eager's are."""
    exact = model.build(training=True)
    theirs, ours = copy.deepcopy(exact), copy.deepcopy(exact)
    inputs = model.example()

    def gradients(module, function, enabled):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            results = flat(function(*inputs))
        sum(loss(result.float()) for result in results).backward()
        return [parameter.grad for parameter in module.parameters()]

    want = gradients(exact, exact, False)
    errors = [
        max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(gradients(module, function, True), want) if b is not None)
        for module, function in ((theirs, theirs), (ours, torch.compile(ours, backend="convt", options=ALWAYS)))]
    assert errors[1] <= 2 * errors[0] + 0.01


@most
def test_optimize(model: Model):
    module = model.build()
    swapped = copy.deepcopy(module)
    report = convt.torch.optimize(swapped)
    modules = [part for part in module.modules() if isinstance(part, torch.nn.modules.conv._ConvTransposeNd)]
    assert len(report) == len(modules)
    assert list(swapped.state_dict()) == list(module.state_dict())
    inputs = model.example()
    with torch.no_grad():
        for a, b in zip(flat(swapped(*inputs)), flat(module(*inputs)), strict=True):
            assert a.shape == b.shape and torch.allclose(a, b, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(
    "model", [pytest.param(model, id=model.name, marks=[] if model.short else pytest.mark.full) for model in MODELS])
def test_inductor(model: Model):
    """The rest by Inductor: strides as eager's, no graph break; every second one with sizes that change."""
    module = model.build()
    dynamic = len(model.name) % 2 == 0
    with torch.no_grad():
        compiled = torch.compile(
            module, backend="convt", options={"convt.take": "always"}, fullgraph=True, dynamic=dynamic)
        for grown in (1, 2) if dynamic else (0,):
            inputs = model.example(grown)
            check(compiled(*inputs), module(*inputs), 5e-5)
