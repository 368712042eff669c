# SPDX-License-Identifier: Apache-2.0
"""Crops, statements that write in place, norms written by hand, and inputs without a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .chains import S2, Conv

# ---- crops, which the convolution's paddings take over


@model(S2, "bias | relu", dynamic=(0, 2, 3))
class CroppedOnBothSides(Conv):
    def forward(self, x):
        return F.relu(self.conv(x)[:, :, 1:-1, 1:-2])


@model(S2, "bias | mul(0.5) | add(channel) | tanh", dynamic=(0, 2, 3))
class CroppedByNarrowAndPad(Conv):
    def forward(self, x):
        y = self.conv(x) * 0.5
        y = F.pad(y.narrow(2, 0, y.size(2) - 1), (-1, -1)) + self.bias
        return torch.tanh(y)


@model(S2, "bias", brief=True)
class CroppedAtTheEnd(Conv):
    """The convolution cannot leave out elements at the end alone."""

    def forward(self, x):
        return F.relu(self.conv(x)[..., :-2])


@model(S2, "bias | instance_norm", brief=True)
class CroppedBehindANorm(Conv):
    """Whose statistics see what is cut off."""

    def forward(self, x):
        return F.relu(F.instance_norm(self.conv(x))[..., 1:-1])


@model(S2, "bias", brief=True)
class CroppedResult(Conv):
    """A view, as its strides show."""

    def forward(self, x):
        return self.conv(x)[:, :, 1:-1, 1:-1]


@model((1, 3, 32, 32), "add(tensor)", "add(tensor)", "", dynamic=())
class Fcn8sWithCrops(nn.Module):
    """As the original: nothing is padded behind the first convolution, and scores are cropped to the earlier ones."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.score = nn.ModuleList([nn.Conv2d(8, 5, 1), nn.Conv2d(8, 5, 1), nn.Conv2d(8, 5, 1)])
        self.up2 = nn.ConvTranspose2d(5, 5, 4, stride=2, bias=False)
        self.up4 = nn.ConvTranspose2d(5, 5, 4, stride=2, bias=False)
        self.up8 = nn.ConvTranspose2d(5, 5, 4, stride=2, bias=False)

    def forward(self, x):
        a = F.relu(self.down[0](x))
        b = F.relu(self.down[1](a))
        c = F.relu(self.down[2](b))
        h = self.up2(self.score[2](c))
        b = self.score[1](b)
        h = h[:, :, 1 : 1 + b.size(2), 1 : 1 + b.size(3)] + b
        h = self.up4(h)
        a = self.score[0](a)
        h = h[:, :, 1 : 1 + a.size(2), 1 : 1 + a.size(3)] + a
        return self.up8(h)[:, :, 1 : 1 + x.size(2), 1 : 1 + x.size(3)].contiguous()


class SnakeBeta(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.randn(channels) * 0.3)
        self.beta = nn.Parameter(torch.randn(channels) * 0.3)

    def forward(self, x):
        alpha, beta = (p.unsqueeze(0).unsqueeze(-1).exp() for p in (self.alpha, self.beta))
        return x + (1.0 / (beta + 1e-9)) * torch.pow(torch.sin(x * alpha), 2)


@model((1, 6, 20), "mul(2) | keep(v0) | snake | sub(v0) | mul(channel) | add(v0)", dynamic=(0, 2))
class AliasFreeSnake(nn.Module):
    """As BigVGAN has it: upsampled by a fixed filter, cropped, snake, downsampled."""

    def __init__(self):
        super().__init__()
        self.act = SnakeBeta(6)
        self.register_buffer("filter", torch.rand(1, 1, 12))

    def forward(self, x):
        c = x.shape[1]
        x = F.pad(x, (5, 5), mode="replicate")
        x = 2 * F.conv_transpose1d(x, self.filter.expand(c, -1, -1), stride=2, groups=c)
        x = self.act(x[..., 15:-15])
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), self.filter.expand(c, -1, -1), stride=2, groups=c)


# ---- statements that write in place


@model(S2, "relu | conv_transpose | bias | mul(0.5) | add(1) | relu", dynamic=(0, 2, 3))
class Statements(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.conv = nn.Conv2d(5, 5, 3, padding=1), nn.ConvTranspose2d(5, 6, 4, 2, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.first(x)
        h.relu_()
        h = self.conv(h)
        h.mul_(0.5)
        h.add_(1)
        self.relu(h)
        return h


@model(S2, "bias", brief=True, trains=False)
class StatementBehind(Conv):
    """Written after the convolution has read it."""

    def forward(self, x):
        h = x * 2
        y = self.conv(h)
        h.relu_()
        return y.cumsum(1), h


# ---- norms written by hand


@model(S2, "bias | instance_norm | mul(channel) | add(channel) | relu", dynamic=(0, 2, 3))
class NormByVar(Conv):
    def forward(self, x):
        y = self.conv(x)
        mean, var = y.mean(dim=(2, 3), keepdim=True), y.var(dim=(2, 3), keepdim=True, unbiased=False)
        return F.relu((y - mean) / torch.sqrt(var + 1e-5) * self.bias + self.bias)


@model(S2, "bias | group_norm(1, eps=1e-06) | elu(1)", brief=True)
class NormByVarMean(Conv):
    def forward(self, x):
        y = self.conv(x)
        var, mean = torch.var_mean(y, dim=(1, 2, 3), keepdim=True, correction=0)
        return F.elu((y - mean) * torch.rsqrt(var + 1e-6))


@model(S2, "bias | keep(v0) | mean(axes=hw) | mul(-1) | add(v0) | keep(v1) | pow(2) | mean(axes=hw) | div(0.996031746031746)"
           " | sqrt | add(0.001) | pow(-1) | mul(v1) | tanh")
class NormByStd(Conv):
    """Divided by one element less, eps outside of the root: as style transfer does."""

    def forward(self, x):
        y = self.conv(x)
        return torch.tanh((y - y.mean([2, 3], keepdim=True)) / (y.std([2, 3], keepdim=True) + 1e-3))


@model(S2, "bias | instance_norm(eps=0.000996031746031746) | mul(0.9980139007206994)", brief=True)
class NormByUnbiasedVar(Conv):
    def forward(self, x):
        y = self.conv(x)
        return (y - y.mean((2, 3), True)) * (y.var((2, 3), keepdim=True) + 1e-3).pow(-0.5)


@model(S2, "bias | keep(v0) | pow(2) | sum | sqrt | clamp(min=0.1) | pow(-1) | mul(v0)", dynamic=(0, 2, 3), brief=True)
class DividedByItsLength(Conv):
    def forward(self, x):
        y = self.conv(x)
        return y / torch.linalg.vector_norm(y, dim=1, keepdim=True).clamp_min(0.1)


@model(S2, "bias | keep(v0) | global_avg_pool | mul(-1) | add(v0) | pow(2) | global_avg_pool | mul(1.00398406374502) | sqrt",
       brief=True)
class Deviation(Conv):
    def forward(self, x):
        return self.conv(x).std((2, 3))


# ---- others


@model(S2, "bias | mul(channel) | add(channel) | mul(0.75) | add(tensor)", dynamic=(0,))
class AddcmulLerp(Conv):
    def forward(self, x):
        y = torch.addcmul(self.bias, self.conv(x), self.bias)
        return torch.lerp(y, x.new_ones(y.shape).cumsum(1), 0.25)


@model((5, 6, 7), "bias | relu | mul(0.5)", dynamic=())
class NoBatch(Conv):
    def forward(self, x):
        return F.relu(self.conv(x)) * 0.5


@model((5, 6, 7), "bias | global_avg_pool", dynamic=(), brief=True)
class NoBatchReduced(Conv):
    def forward(self, x):
        return self.conv(x).mean((1, 2))


@model(S2, "bias | gelu", dynamic=(0, 2, 3))
class Checkpointed(Conv):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(lambda x: F.gelu(self.conv(x)), x, use_reentrant=False)
