# SPDX-License-Identifier: Apache-2.0
"""Values that are used again later, reductions over any axes, and the rest of the pointwise operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .chains import S2, S3, Conv


class Conv3(Conv):
    def __init__(self, **options):
        super().__init__(3, **options)


@model(S3, "bias | add(channel) | keep(v0) | hardswish | mul(v0)", short=True)
class AddHardswish(Conv3):
    def forward(self, x):
        x = self.conv(x)
        x = x + self.bias
        return x * F.hardswish(x)


@model(S2, "bias | keep(v0) | global_avg_pool | sigmoid | mul(v0) | relu", dynamic=(0, 2, 3), short=True)
class Gated(Conv):
    def forward(self, x):
        x = self.conv(x)
        gate = torch.sigmoid(F.adaptive_avg_pool2d(x, 1))
        return F.relu(x * gate)


@model(S3, "bias | keep(v0) | global_avg_pool | mul(-1) | add(v0) | keep(v1) | tanh | add(v1) | mul(2)")
class TwiceKept(Conv3):
    def forward(self, x):
        x = self.conv(x)
        x = x - x.mean(dim=[2, 3, 4], keepdim=True)
        return (torch.tanh(x) + x) * 2


@model(S2, "bias | relu | keep(v0) | sum(axes=h) | add(1) | pow(-1) | mul(v0)", dynamic=(0, 2, 3))
class DividedBySum(Conv):
    def forward(self, x):
        x = F.relu(self.conv(x))
        return x / (x.sum(2, keepdim=True) + 1)


@model(S2, "bias | keep(v0) | pow(2) | mean | add(1e-06) | pow(-0.5) | mul(v0) | mul(channel)", dynamic=(0, 2, 3))
class RootMeanSquare(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return x * self.bias


@model(S2, "bias | rms_norm(channels, eps=1e-05) | mul(channel) | silu", dynamic=(0, 2, 3))
class RmsNorm(Conv):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(6, eps=1e-5)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@model(S3, "bias | instance_norm | leaky_relu(0.01)")
class HandwrittenInstanceNorm(Conv3):
    def forward(self, x):
        x = self.conv(x)
        x = x - x.mean((2, 3, 4), keepdim=True)
        x = x / torch.sqrt((x * x).mean((2, 3, 4), keepdim=True) + 1e-5)
        return F.leaky_relu(x)


@model(S3, "bias | relu | keep(v0) | add(channel) | add(v0) | mul(v0) | add(v0)")
class ResidualOfLater(Conv3):
    def forward(self, x):
        x = F.relu(self.conv(x))
        original = x.clone()
        x = x + self.bias
        x = x + original
        x = x * original
        return x + original


@model(S2, "bias | keep(v0) | pow(2) | sum | sqrt | clamp(min=1e-12) | pow(-1) | mul(v0) | mul(3)")
class Normalized(Conv):
    def forward(self, x):
        return F.normalize(self.conv(x), dim=1) * 3


@model(S2, "bias | softmax(axes=hw) | log_softmax | exp", dynamic=(0, 2, 3))
class SoftmaxOfSpace(Conv):
    def forward(self, x):
        x = self.conv(x)
        n, c, h, w = x.shape
        x = torch.softmax(x.view(n, c, -1), dim=-1).view(n, c, h, w)
        return torch.exp(F.log_softmax(x, dim=1))


@model(S3, "bias | softmax(axes=w) | max(axes=d) | logsumexp(axes=ch) | tanh")
class SingleAxes(Conv3):
    def forward(self, x):
        x = F.softmax(self.conv(x), dim=-1)
        x = torch.max(x, dim=2, keepdim=True)[0]
        return torch.tanh(torch.logsumexp(x, dim=(1, 3)))


@model(S2, "bias | min(axes=hw) | sum | abs", dynamic=(0, 2, 3))
class LeastOfSpace(Conv):
    def forward(self, x):
        return torch.abs(self.conv(x).amin((-2, -1)).sum(-1))


@model(S2, "bias | softsign | celu(0.5) | hardshrink(0.1) | threshold(0.2, 0.2) | logsigmoid | abs | sqrt | log | exp")
class Pointwise(Conv):
    def forward(self, x):
        x = F.celu(F.softsign(self.conv(x)), 0.5)
        x = F.threshold(F.hardshrink(x, 0.1), 0.2, 0.2)
        x = torch.sqrt(torch.abs(F.logsigmoid(x)))
        return x.log().exp()


@model(S2, "bias | abs | add(0.5) | pow(1.5) | pow(-0.5) | pow(-1) | mul(2) | pow(2) | log | mul(1.4426950408889634)")
class Powers(Conv):
    def forward(self, x):
        x = (self.conv(x).abs() + 0.5) ** 1.5
        x = 2 / torch.rsqrt(x)
        return torch.log2(torch.square(x))


@model(S2, "bias | keep(v0) | tanh | mul(-1) | add(v0) | keep(v1) | clamp(-0.1, 0.1) | mul(-1) | add(v1)")
class Shrinks(Conv):
    def forward(self, x):
        return F.softshrink(F.tanhshrink(self.conv(x)), 0.1)


class Modules(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(5, 6, 4, stride=2), nn.SELU(), nn.CELU(0.7), nn.Softsign(), nn.ReLU6(), nn.Hardshrink(0.05),
            nn.Threshold(0.1, 0.2), nn.LogSigmoid(), nn.LogSoftmax(dim=1))

    def forward(self, x):
        return self.layers(x)


model(S2, "bias | selu | celu(0.7) | softsign | hardtanh(0, 6) | hardshrink(0.05) | threshold(0.1, 0.2) | logsigmoid"
          " | log_softmax")(Modules)


# ---- what must not be fused, or not whole


@model(S2, "bias")
class TwoWays(Conv):
    """Both ways from the value do something: a chain goes along one."""

    def forward(self, x):
        x = self.conv(x)
        return torch.tanh(x) * torch.sigmoid(x)


@model(S2, "bias | relu")
class KeptSeenLater(Conv):
    def forward(self, x):
        x = F.relu(self.conv(x))
        return x * F.hardswish(x), x


@model(S2, "bias")
class KeptWrittenMeanwhile(Conv):
    def forward(self, x):
        x = self.conv(x)
        y = torch.exp(x)
        x.mul_(2)
        return x * y


@model(S2, "bias | relu", dynamic=(2, 3))
class ReducedWithoutAxis(Conv):
    """(N, H, W) meets (N, C, H, W) as (C, H, W)."""

    def __init__(self):
        super().__init__(out=2)

    def forward(self, x):
        x = F.relu(self.conv(x))
        return x - x.mean(1)
