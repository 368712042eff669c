# SPDX-License-Identifier: Apache-2.0
"""convt.torch.nn and optimize()."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt
import convt.torch


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_modules_are_torchs(dims):
    name = f"ConvTranspose{dims}d"
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 1}
    ours, theirs = getattr(convt.torch.nn, name)(4, 6, 3, **options), getattr(nn, name)(4, 6, 3, **options)
    assert isinstance(ours, type(theirs))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 4, *(5,) * dims)
    torch.testing.assert_close(ours(x), theirs(x))
    size = [11] * dims
    ours, theirs = getattr(convt.torch.nn, name)(4, 6, 3, 2), getattr(nn, name)(4, 6, 3, 2)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(x, size), theirs(x, size))


def test_epilogue_parameters_train():
    scale = nn.Parameter(torch.rand(6))
    module = convt.torch.nn.ConvTranspose2d(4, 6, 3, epilogue=[convt.ops.mul(scale), convt.ops.gelu()])
    assert set(module.state_dict()) == {"weight", "bias", "epilogue_0_0"}
    assert "mul(channel) | gelu" in repr(module)
    x = torch.randn(2, 4, 5, 5)
    module(x).square().sum().backward()
    got = [parameter.grad.clone() for parameter in (module.weight, module.bias, scale)]
    y = F.gelu(F.conv_transpose2d(x, module.weight, module.bias) * scale[:, None, None])
    want = torch.autograd.grad(y.square().sum(), [module.weight, module.bias, scale])
    torch.testing.assert_close(got, list(want), atol=1e-3, rtol=1e-4)


def net():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.ConvTranspose2d(4, 8, 3, 2), nn.BatchNorm2d(8), nn.LeakyReLU(0.1, inplace=True), nn.Dropout(0.5),
        nn.ConvTranspose2d(8, 3, 3), nn.MaxPool2d(2), nn.PReLU())
    model[1].running_mean.normal_()
    return model


def test_optimize_swaps_and_reports():
    model = net().eval()
    x, keys = torch.randn(2, 4, 9, 9), list(model.state_dict())
    want = model(x)
    report = convt.torch.optimize(model)
    assert [(swap.name, swap.taken, swap.modules) for swap in report] == [
        ("0", True, ["1", "2", "3"]), ("4", True, ["5", "6"])]
    assert "swapped with 5, 6; ends: its result is the model's" in str(report)
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(model(x), want)


def test_optimize_slopes():
    model, x = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.PReLU(4), nn.Tanh()), torch.randn(2, 3, 5, 5)
    nn.init.uniform_(model[1].weight)
    want = model(x)
    assert convt.torch.optimize(model).swaps[0].modules == ["1", "2"]
    torch.testing.assert_close(model(x), want)


BEHIND = {
    "one slope": nn.PReLU(), "softmin": nn.Softmin(dim=1), "softmin2": nn.Sequential(nn.Tanh(), nn.Softmin(1)),
    "softshrink": nn.Softshrink(0.3), "tanhshrink": nn.Sequential(nn.Tanhshrink(), nn.Softshrink(0.1), nn.Tanhshrink()),
    "adaptive": nn.AdaptiveAvgPool2d(3), "halves": nn.Sequential(nn.PReLU(), nn.AdaptiveMaxPool2d((3, None)), nn.Tanh()),
    "one": nn.AdaptiveAvgPool2d(1), "softmax": nn.Softmax(1),
}


@pytest.mark.parametrize("name", BEHIND)
def test_optimize_takes(name):
    after = BEHIND[name]
    model, x = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), *(after if isinstance(after, nn.Sequential) else [after])), torch.randn(2, 3, 4, 7)
    twin = copy.deepcopy(model)
    (swap,) = convt.torch.optimize(model)
    assert swap.modules == [str(place) for place in range(1, len(model))]
    with torch.no_grad():
        torch.testing.assert_close(model(x), twin(x))
        torch.testing.assert_close(model(x[0]), twin(x[0]))
    model(x).square().sum().backward()
    twin(x).square().sum().backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_optimized_models_compile(dynamic):
    """In one graph, with norms, slopes and pools behind a convolution."""
    model, x = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4), nn.PReLU(), nn.AdaptiveMaxPool2d(3)).eval(), torch.randn(2, 3, 4, 7)
    twin = copy.deepcopy(model)
    convt.torch.optimize(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), twin(x))
            x = torch.randn(3, 3, 7, 4)


def test_optimize_leaves_windows_that_differ():
    """And takes them again where they do not."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.AdaptiveAvgPool2d(3), nn.Sigmoid())
    twin = copy.deepcopy(model)
    convt.torch.optimize(model)
    for size in (4, 5, 7):
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(model(x), twin(x))


def test_optimize_says_why_not():
    reasons = [swap.reason for model in (nn.ConvTranspose2d(3, 4, 3), nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.RMSNorm(6)))
               for swap in convt.torch.optimize(model)]
    assert "like(model)" in reasons[0] and "over channels alone" in reasons[1]


def test_optimize_keeps_training_mode():
    model, x = net(), torch.randn(4, 4, 9, 9)
    twin = copy.deepcopy(model)
    convt.torch.optimize(twin)
    for part in (model, twin):
        part.train()
        torch.manual_seed(1)
        part(x).sum().backward()
    torch.testing.assert_close(dict(twin.state_dict()), dict(model.state_dict()))
    grads = [[parameter.grad for parameter in part.parameters()] for part in (twin, model)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-4)
    model.eval(), twin.eval()
    torch.testing.assert_close(twin(x), model(x), atol=1e-4, rtol=1e-4)


def test_optimized_models_are_copied():
    model, x = net().eval(), torch.randn(2, 4, 9, 9)
    convt.torch.optimize(model)
    want = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), want)
        with torch.no_grad():
            other[1].bias.add_(1)  # the copy's own
        assert not torch.allclose(other(x), want)
    torch.testing.assert_close(model(x), want)


def test_freeze():
    model, x = net().eval(), torch.randn(2, 4, 9, 9)
    want = model(x)
    convt.torch.optimize(model, freeze=True)
    with torch.no_grad():
        torch.testing.assert_close(model(x), want)
        other = copy.deepcopy(model)
        weight = model[0].weight.clone()
        model[0].weight.zero_()  # against the promise: what was packed stays in use
        torch.testing.assert_close(model(x), want)
        state = {**model.state_dict(), "0.weight": weight * 2}
        model.load_state_dict(state)  # which packs anew
        assert not torch.allclose(model(x), want)
        torch.testing.assert_close(other(x), want)
        torch.testing.assert_close(other.double()(x.double()), want.double(), atol=1e-5, rtol=1e-5)


def test_what_cannot_be_traced_is_looked_at_in_parts():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.ReLU())
            self.own = nn.ConvTranspose2d(8, 2, 3)

        def forward(self, x):
            x = self.up(x)
            return self.own(x) if x.sum() > -1e9 else x

    model, x = Branches(), torch.randn(1, 4, 5, 5)
    want = model(x)
    report = convt.torch.optimize(model)
    assert [(swap.name, swap.modules) for swap in report] == [("up.0", ["up.1"]), ("own", [])]
    torch.testing.assert_close(model(x), want)


def test_modules_used_twice_are_left():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.act = nn.ConvTranspose2d(4, 4, 3), nn.ReLU()

        def forward(self, x):
            return self.act(self.up(self.act(self.up(x))))

    model, x = Shared(), torch.randn(1, 4, 5, 5)
    want = model(x)
    report = convt.torch.optimize(model)
    assert report.swaps[0].modules == [] and "several times" in report.swaps[0].reason
    torch.testing.assert_close(model(x), want)
