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


@case()
def rounded_on_purpose(m, x):
    """As quantisation is simulated: casts to 16 bits and back round, in a model of float32."""
    y = m.conv(x)
    return (m.conv(x.to(torch.bfloat16).to(torch.float32)), m.conv((x * 0.37).to(torch.float16).to(torch.float32).relu()),
            (y * y.to(torch.bfloat16).to(torch.float32).sigmoid()), m.conv(x).relu().to(torch.float16).float() * 2)


# ---- axes of one element


@case((2, 4, 5, 6), grads=True)
def extremes_over_one_channel(m, x):
    one = lambda: m.one(x).tanh()  # noqa: E731
    return (torch.max(one(), dim=1)[0], one().max(1).values, torch.min(one(), 1, keepdim=True)[0],
            torch.min(one(), dim=-3, keepdim=True).values, one().amax(1), one().amin(1, keepdim=True), one().max(dim=1)[0] * 2)


@case((2, 4, 1, 6), grads=True)
def extremes_over_one_row(m, x):
    row = lambda: F.conv_transpose2d(x, m.conv.weight[..., :1, :], m.conv.bias)  # noqa: E731
    return torch.max(row(), dim=2)[0].relu(), row().min(2, keepdim=True).values.relu(), row().max(2).values.max(2)[0]


@case((2, 4, 5, 6), grads=True)
def sums_over_one_element(m, x):
    one = lambda: m.one(x)  # noqa: E731
    pixel = lambda: F.conv_transpose2d(x[..., :1, :1], m.conv.weight[..., :1, :1], m.conv.bias)  # noqa: E731
    return (one().sum(1), one().mean(1, keepdim=True), one().sum(dim=1, keepdim=True).exp(), one().mean(1).tanh(),
            pixel().mean((2, 3)), pixel().sum((2, 3), keepdim=True), pixel().amax((2, 3)) * 2, one().logsumexp(1))


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


@case(grads=True)
def nearly_abs(m, x):
    """Behind which a logarithm or a division shows what happens near 0."""
    tiny = [m.conv(x) * 1e-8 for _ in range(4)]
    return [torch.log(torch.sqrt(tiny[0] * tiny[0] + 1e-12)), 1e-9 / torch.sqrt(tiny[1] ** 2 + 1e-14),
            torch.log((tiny[2].square() + 1e-18).sqrt()), torch.log(torch.where(tiny[3] > 0, tiny[3], -tiny[3]) + 1e-10)]


@case(grads=True)
def nearly_other_activations(m, x):
    tiny = [m.conv(x) * 1e-8 for _ in range(3)]
    y, z = m.conv(x) * 20, m.conv(x) * 20
    return [1e-7 / (tiny[0] * torch.sigmoid(tiny[0]) + 1e-7), torch.log(torch.relu(tiny[1]) + 1e-9),
            1e-9 / (torch.tanh(tiny[2]) + 1e-7), (torch.where(y > 10, y, torch.log1p(torch.exp(y))) - 10),
            torch.log(torch.where(z > -3, F.softplus(z), 0.0) + 1)]


# ---- crops, statements, norms by hand


@case(grads=True)
def crop_that_is_written(m, x):
    y = m.conv(x)
    z = y[..., 1:-1, 1:-1]
    z.mul_(2)
    return y, z


@case(grads=True)
def crops_of_many_kinds(m, x):
    return [part.relu() for part in (
        m.conv(x)[:, :, 2:-2, 2:-2], m.conv(x)[..., 3:-3], m.conv(x)[..., ::2], m.conv(x)[..., 5:3], m.conv(x)[:, 1:],
        m.conv(x)[..., 4], m.conv(x)[..., -6:-1], m.conv(x)[1:, :, 1:-1], m.conv(x).narrow(-1, -9, 6),
        F.pad(m.conv(x), (-2, -1)), F.pad(m.conv(x), (-1, 1)), F.pad(m.conv(x), (0, 0, -1, -2)))]


@case(grads=True)
def crop_behind_a_residual(m, x):
    y = m.conv(x)
    return (y + torch.ones_like(x).mean() * x.sum())[..., 1:-1].tanh(), (y.detach() * 2)[..., 1:-1]


@case(grads=True)
def crop_between(m, x):
    y = m.conv(x)[:, :, 1:-1, 1:-1] * m.p
    y = F.instance_norm(y)
    return y[..., 1:-1].exp()


@case()
def statement_on_the_input(m, x):
    x.mul_(2)
    x.relu_()
    return m.conv(x), x


@case()
def statement_seen_by_a_view(m, x):
    h = x * m.a
    part = h[:, :2]
    h.relu_()
    return m.conv(h), part


@case(grads=True)
def statement_without_gradient(m, x):
    h = x * m.a
    with torch.no_grad():
        g = x * 2
        g.relu_()
    return m.conv(h) + m.conv(g)


@case(grads=True)
def norms_whose_parts_are_used(m, x):
    y = m.conv(x)
    var, mean = torch.var_mean(y, (2, 3), keepdim=True)
    z = m.conv(x + 1)
    std = z.std((2, 3), keepdim=True)
    return (y - mean) / (var + 1e-5).sqrt(), mean, (z - z.mean((2, 3), keepdim=True)) / std, std


@case(grads=True)
def norms_that_are_none(m, x):
    """Other axes, other means, the batch among them."""
    out = []
    for over, beside in (((2, 3), (2,)), ((1,), (2, 3)), ((0, 2, 3), (0, 2, 3)), ((2,), (2,)), ((1, 2), (1, 2))):
        y = m.conv(x)
        out.append((y - y.mean(beside, keepdim=True)) / (y.var(over, keepdim=True, unbiased=False) + 1e-2).sqrt())
    y = m.conv(x)
    out.append((y.mean(1, keepdim=True) - y) / (y.var(1, keepdim=True) + 1e-2).sqrt())
    y = m.conv(x)
    out.append((y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True, correction=3) + 1e-2).sqrt())
    return out


@case(grads=True)
def lengths(m, x):
    y = m.conv(x) + 3
    return [torch.norm(m.conv(x) + 3, dim=1), (m.conv(x) + 3).norm(1, dim=(2, 3)), torch.linalg.norm(m.conv(x) + 3, dim=1),
            torch.linalg.norm(m.conv(x) + 3, dim=(2, 3)), torch.linalg.vector_norm(m.conv(x) + 3, 2, dim=(1, 2)),
            torch.linalg.vector_norm(m.conv(x) + 3, 3, dim=1), (m.conv(x) + 3).norm(), y / y.norm(dim=1, keepdim=True)]


@case(grads=True)
def sums_of_products(m, x):
    y = x.sum() * torch.ones(2, 6, 10, 12)
    return [torch.addcmul(m.p, m.conv(x), m.p, value=0.5), torch.addcmul(m.conv(x), m.p, m.p), torch.addcdiv(y, m.p, m.conv(x) + 9),
            torch.addcdiv(m.p, m.conv(x), y.square() + 2, value=-2), torch.lerp(m.conv(x), y, 0.2), torch.lerp(y, m.conv(x), 1.5),
            torch.lerp(m.conv(x), torch.tensor(2.0), 0.25), torch.lerp(m.conv(x), m.p, m.p), m.conv(x).lerp_(y, 0.5)]


@case(grads=True)
def snakes_with_betas(m, x):
    beta, alpha = m.p[:, 0, 0].view(1, 6, 1, 1), -m.p
    y, z, w = m.conv(x), m.conv(x), m.conv(x)
    return (y + torch.sin(y * alpha) ** 2 / beta, z + (1 / (beta + 1e-9)) * torch.sin(alpha * z).pow(2),
            w + torch.sin(w * m.p).square() / (m.p + beta))


@case((4, 5, 6), grads=True)
def no_batch(m, x):
    y = F.leaky_relu(m.conv(x), 0.1) * m.p
    z = m.conv(torch.tanh(x))
    return y.mean(0), z.softmax(0), m.conv(x)[:, 1:-1, 1:-1].exp(), m.conv(x).transpose(0, 1), F.max_pool2d(m.conv(x), 2)


@case(grads=True)
def checkpoints(m, x):
    def inner(t):
        return m.conv(t).sigmoid() * m.p

    def outer(t):
        return torch.utils.checkpoint.checkpoint(inner, t, use_reentrant=False).mean(1, keepdim=True) + m.one(t)

    return torch.utils.checkpoint.checkpoint(outer, x * m.a, use_reentrant=False)


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
    flat = [list(value) if isinstance(value, (tuple, list)) else [value] for value in (got, want)]
    losses = [torch.zeros(()), torch.zeros(())]
    for a, b in zip(*flat, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-5)
        if a.requires_grad:
            weights = torch.rand(a.shape, generator=torch.Generator().manual_seed(3))
            losses = [loss + (value * weights).sum() for loss, value in zip(losses, (a, b))]
    if grads:
        for loss in losses:
            loss.backward()
    torch.testing.assert_close(given[1], given[0])
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, atol=1e-3, rtol=1e-4)


def tanh_of(y):
    return (torch.exp(y) - torch.exp(-y)) / (torch.exp(y) + torch.exp(-y))


# Activations written out, what they are, and what looks like them but differs in float32: near 0, far from it, or between.
WRITTEN_OUT = {
    "abs": [lambda y: torch.sqrt(y * y), lambda y: torch.where(y < 0, -y, y), lambda y: torch.relu(y) + torch.relu(-y)],
    "silu": [lambda y: y * torch.sigmoid(y), lambda y: y / (1 + torch.exp(-y)), lambda y: y * (torch.tanh(y / 2) + 1) * 0.5],
    "gelu": [lambda y: 0.5 * y * (1 + torch.erf(y / 2**0.5)), lambda y: y * 0.5 * (1.0 + torch.erf(y * 0.7071067811865476))],
    "gelu(tanh)": [lambda y: 0.5 * y * (1 + torch.tanh(0.7978845608 * (y + 0.044715 * torch.pow(y, 3)))),
                   lambda y: 0.5 * y * (1 + torch.tanh(0.7978845608 * y * (1 + 0.044715 * y * y)))],
    "hardswish": [lambda y: y * F.relu6(y + 3) / 6, lambda y: y * (y + 3).clamp(0, 6) * (1 / 6)],
    "mish": [lambda y: y * torch.tanh(F.softplus(y))],
    "softplus": [lambda y: torch.where(y > 20, y, torch.log1p(torch.exp(y.clamp(max=20))))],
    "elu(1)": [lambda y: torch.where(y > 0, y, torch.exp(y.clamp(max=0)) - 1)],
    "relu": [lambda y: y * (y > 0), lambda y: (y + y.abs()) / 2],
}
NEARLY = {
    "abs": [lambda y: torch.sqrt(y * y + 1e-12), lambda y: torch.sqrt(y**2 + 1e-20), lambda y: y * torch.tanh(1e6 * y),
            lambda y: torch.where(y.abs() < 1e-9, 1e-9, y.abs()), lambda y: torch.sqrt(y * y + 1e-30)],
    "silu": [lambda y: y * torch.sigmoid(y) + 1e-8, lambda y: y * torch.sigmoid(y + 1e-5), lambda y: y / (1 + 1e-5 + torch.exp(-y)),
             lambda y: (y + 1e-12) * torch.sigmoid(y), lambda y: y * torch.sigmoid(y).clamp(min=1e-7)],
    "gelu": [lambda y: 0.5 * y * (1 + torch.erf(y / 1.4142)), lambda y: 0.5 * (y + 1e-9) * (1 + torch.erf(y / 2**0.5))],
    "softplus": [lambda y: torch.where(y > 10, y, torch.log1p(torch.exp(y.clamp(max=10)))),
                 lambda y: torch.where(y < -15, torch.zeros_like(y), F.softplus(y)), lambda y: F.softplus(y) + 1e-9],
    "relu": [lambda y: torch.relu(y) + 1e-10, lambda y: torch.where(y > 1e-8, y, 0.0), lambda y: torch.where(y > 0, y, 1e-9 * y),
             lambda y: torch.where(y < 1e20, torch.relu(y), 1e20)],
    "tanh": [lambda y: torch.tanh(y) + 1e-12, lambda y: torch.tanh(y).clamp(min=1e-12)],
}


def taken(function):
    """The ops that are found for a function of a convolution's result, in one step of its own."""
    conv = nn.ConvTranspose2d(4, 6, 4, 2, 1)
    with torch.no_grad():
        found = convt.torch.explain(lambda x: function(conv(x)), torch.randn(2, 4, 5, 6), options=ALWAYS, quiet=True)
    return found.found[0].ops[1:]


@pytest.mark.parametrize("op", WRITTEN_OUT)
def test_activations_written_out(op):
    for place, function in enumerate(WRITTEN_OUT[op]):
        ops = taken(function)
        assert ops[:1] == (op,) and all(rest.startswith(("mul(", "div(")) for rest in ops[1:]), (place, ops)


@pytest.mark.parametrize("op", NEARLY)
def test_what_is_nearly_an_activation(op):
    for place, function in enumerate(NEARLY[op]):
        ops = taken(function)
        assert ops != (op,), place  # but what it is besides, or nothing


def test_extremes_over_one_element_are_taken():
    """Where the values alone are used, by any spelling."""
    conv = nn.ConvTranspose2d(4, 1, 4, 2, 1)
    for function in (lambda y: torch.max(y, dim=1)[0], lambda y: y.max(1).values, lambda y: torch.min(y, 1, keepdim=True)[0],
                     lambda y: y.min(dim=1, keepdim=True).values, lambda y: y.sum(1), lambda y: y.mean(1, keepdim=True)):
        with torch.no_grad():
            (found,) = convt.torch.explain(
                lambda x: function(conv(x)).tanh(), torch.randn(2, 4, 5, 6), options=ALWAYS, quiet=True)
        assert found.ops == ("bias", "tanh"), found


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
