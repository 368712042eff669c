# SPDX-License-Identifier: Apache-2.0
"""What people write around a transposed convolution keeps its meaning: modes, writes, views, torch.func."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt
import convt.torch

ALWAYS = {"convt.take": "always", "convt.inner": "eager"}
CASES = {}


def case(*shapes, grads=False):
    def add(function):
        CASES[function.__name__] = (function, shapes or ((2, 4, 5, 6),), grads)
        return function

    return add


class Layers(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.conv, self.one = nn.ConvTranspose2d(4, 6, 4, 2, 1), nn.ConvTranspose2d(4, 1, 4, 2, 1)
        self.p, self.a = nn.Parameter(torch.rand(6, 1, 1) + 0.5), nn.Parameter(torch.rand(4, 1, 1) + 0.5)
        self.b = nn.Parameter(torch.rand(4, 1, 1))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("var", torch.ones(6))

    def forward(self, *inputs):
        return self.function(self, *inputs)


@case((1, 4, 5, 6))
def keepdim_by_position(m, x):
    return m.conv(x).sum(1, True), m.conv(x).mean(2, True), m.conv(x).amax(3, True)


# ---- modes


@case(grads=True)
def mean_without_gradient(m, x):
    y = m.conv(x)
    with torch.no_grad():
        mean = y.mean((2, 3), keepdim=True)
    return (y - mean) * m.p


@case(grads=True)
def convolution_without_gradient(m, x):
    with torch.no_grad():
        y = m.conv(x)
    return y * m.p


@case(grads=True)
def activation_without_gradient(m, x):
    x = x * m.a
    with torch.no_grad():
        y = F.relu(x)
    return m.conv(y) + x.sum()


@case()
def autocast_behind(m, x):
    y = m.conv(x)
    with torch.autocast("cpu", torch.bfloat16):
        return y.relu()


@case()
def autocast_switched_off(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            y = m.conv(x)
        return y * 2


# ---- writes


@case()
def power_in_place(m, x):
    y = m.conv(x)
    x **= 2
    return y.relu()


@case()
def foreach_in_place(m, x):
    y = m.conv(x)
    torch._foreach_mul_([x], 2.0)
    return y.relu()


@case((2, 4, 5, 6), (3, 2, 4, 5, 6))
def written_as_one_of_several(m, x, values):
    y = m.conv(x)
    torch.max(values, 0, out=(x, torch.empty(2, 4, 5, 6, dtype=torch.int64)))
    return y.relu()


@case((2, 4, 5, 6), (2, 6, 10, 12))
def statistics_updated(m, x, z):
    y = F.batch_norm(m.conv(x), m.mean, m.var)
    return y + F.batch_norm(z, m.mean, m.var, training=True, momentum=0.9)


# ---- views


@case()
def einsum_is_a_view(m, x):
    return m.conv(F.relu_(torch.einsum("nchw->ncwh", x)))


@case((2, 8, 5, 6))
def slice_of_aten(m, x):
    return m.conv(torch.ops.aten.slice.Tensor(x, 1, 0, 4).relu_())


@case()
def conj_is_a_view(m, x):
    return m.conv(x.conj().relu_())


# ---- what looks like something else


@case(grads=True)
def sum_of_two_parameters_is_no_eps(m, x):
    return m.conv(x + torch.sin(m.a * x) ** 2 / (m.a + m.b))


@case()
def snake_makes_channels(m, x):
    y = m.one(x)
    return y + torch.sin(m.p * y) ** 2 / (m.p + 1e-9)


@case((2, 4, 5, 6), (4, 1, 1))
def alpha_changed_meanwhile(m, x, q):
    d = q + 1e-9
    q.mul_(2)
    return m.conv(x + torch.sin(q * x) ** 2 / d)


@case()
def thresholds_beside_zero(m, x):
    return m.conv(x * (x > 0.1)), torch.where(m.conv(x) > 0.05, 1.0, 0.0), m.conv(torch.where(x.abs() < 0.1, 0.0, x))


@case()
def waves(m, x):
    return m.conv(x + torch.sin(16 * torch.pi * x))


@pytest.mark.parametrize("name", CASES)
def test_meaning(name):
    function, shapes, grads = CASES[name]
    theirs = Layers(function)
    ours = copy.deepcopy(theirs)
    inputs = [torch.randn(shape) for shape in shapes]
    given = [[tensor.clone() for tensor in inputs] for _ in range(2)]
    with torch.set_grad_enabled(grads):
        want = theirs(*given[0])
        got = torch.compile(ours, backend="convt", options=ALWAYS)(*given[1])
    flat = [list(value) if isinstance(value, tuple) else [value] for value in (got, want)]
    for a, b in zip(*flat, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-5)
        if grads:
            weights = torch.rand(a.shape, generator=torch.Generator().manual_seed(3))
            (a * weights).sum().backward()
            (b * weights).sum().backward()
    torch.testing.assert_close(given[1], given[0])
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, atol=1e-3, rtol=1e-4)


def test_inputs_that_share_memory():
    conv = nn.ConvTranspose2d(4, 6, 4, 2, 1)

    def function(a, b):
        y = conv(a)
        b.mul_(2)
        return y.relu()

    x = torch.randn(2, 4, 5, 6)
    same = x.clone()
    with torch.no_grad():
        want = function(x, x.view(2, 4, 30))
        got = torch.compile(function, backend="convt", options=ALWAYS)(same, same.view(2, 4, 30))
    torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-5)


def test_functional_derivatives():
    x, w = torch.randn(2, 3, 4, 5), torch.randn(3, 2, 3, 3)

    def loss(convolve):
        return lambda w: convolve(x, w).tanh().sum()

    want = torch.func.grad(loss(F.conv_transpose2d))(w)
    torch.testing.assert_close(torch.func.grad(loss(convt.torch.conv_transpose2d))(w), want)
    compiled = torch.compile(
        lambda w: torch.func.grad(loss(F.conv_transpose2d))(w), backend="convt", options=ALWAYS)
    torch.testing.assert_close(compiled(w), want)
    tangents = [
        torch.func.jvp(lambda t: convolve(t, w), (x,), (x,))[1] for convolve in (convt.torch.conv_transpose2d, F.conv_transpose2d)]
    torch.testing.assert_close(*tangents)
    grads = [torch.vmap(torch.func.grad(lambda w, t: convolve(t[None], w).square().sum()), (None, 0))(w, x)
             for convolve in (convt.torch.conv_transpose2d, F.conv_transpose2d)]
    torch.testing.assert_close(*grads, atol=1e-3, rtol=1e-4)


def test_operands_of_text_and_objects_keep_their_order():
    x, w, s, t, u = torch.randn(2, 3, 4, 5), torch.randn(3, 2, 3, 3), torch.rand(3), torch.rand(3), torch.rand(2)
    got = convt.torch.conv_transpose2d(
        x, w, prologue=["mul(channel)", convt.ops.add(t)], epilogue=["mul(channel)", convt.ops.relu()], operands=[s, u])
    want = F.relu(F.conv_transpose2d(x * s[:, None, None] + t[:, None, None], w) * u[:, None, None])
    torch.testing.assert_close(got, want)
