# SPDX-License-Identifier: Apache-2.0
"""Activations, residuals and reductions that are written out."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .chains import S2, S3, Conv


@model(S2, "bias | prelu | mul(2) | prelu | abs")
class Slopes(Conv):
    def __init__(self):
        super().__init__()
        self.each = nn.PReLU(6)
        self.one = nn.PReLU()

    def forward(self, x):
        return torch.abs(self.one(self.each(self.conv(x)) * 2))


@model(S3, "bias | prelu | mul(-1) | softmax")
class SlopeOfFunction(Conv):
    def __init__(self):
        super().__init__(3)
        self.slope = nn.Parameter(torch.rand(6))

    def forward(self, x):
        return F.softmin(F.prelu(self.conv(x), self.slope), dim=1)


@model(S2, "bias | gelu | gelu(tanh) | mul(1.702) | silu | div(1.702) | hardswish | mul(6) | div(6) | mul(3) | mul(2)",
       dynamic=(0, 2, 3))
class WrittenOut(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
        x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        x = x * torch.sigmoid(1.702 * x)
        x = x * F.relu6(x + 3) / 6
        x = x * 2 + x
        return x + x


@model(S3, "add(channel) | mul(conv) | add(channel) | sigmoid")
class ProductWithItself(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        y = self.conv(x)
        return torch.sigmoid((y + self.bias) * y - y)


@model(S2, "bias | gelu")
class ActivationUsedTwice(Conv):
    """What is inside of an activation is a result too: only the first is taken."""

    def forward(self, x):
        x = F.gelu(self.conv(x))
        gate = torch.sigmoid(x)
        return x * gate, gate


@model(S2, "bias")
class CutOffFarAway(Conv):
    """A line only where values are small."""

    def forward(self, x):
        x = self.conv(x)
        return x * 2 + torch.clamp(x, -50, 50)


@model(S2, "bias | max_pool(14x18) | tanh")
class GreatestOfSpace(Conv):
    def forward(self, x):
        return torch.squeeze(torch.tanh(F.adaptive_max_pool2d(self.conv(x), 1)))


@model(S2, "bias | leaky_relu(0.2) | clamp(max=1.5) | elu(0.7) | relu | leaky_relu(0.5) | mul(2)")
class Bent(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = torch.where(x > 0, x, 0.2 * x)
        x = torch.where(x > 1.5, torch.full_like(x, 1.5), x)
        x = torch.where(x.ge(0), x, 0.7 * (torch.exp(x) - 1))
        x = x * (x > 0).float()
        return torch.maximum(2 * x, x)


@model(S2, "bias", brief=True)
class DividedByGreatest(Conv):
    """A maximum over everything is no function of an element."""

    def forward(self, x):
        x = self.conv(x)
        return x / x.max()


@model(S3, "bias | tanh | global_avg_pool | sigmoid | mul(2)")
class Flattened(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        n, c = x.shape[0], 6
        x = self.conv(x).view(n, c, -1)
        x = torch.tanh(x).flatten(2).mean(-1)
        x = torch.sigmoid(x)[:, :, None, None, None]
        return x.reshape(n, c) * 2


@model(S2, "bias | relu | tanh | max | sigmoid", dynamic=(0, 2, 3))
class FlattenedAndBack(Conv):
    def forward(self, x):
        x = self.conv(x)
        n, c, h, w = x.shape
        x = F.relu(x.reshape(n, c, h * w)).view(n, c, h, w)
        x = torch.tanh(x.flatten(2).unflatten(2, (h, w)))
        return torch.sigmoid(x.amax(1).unsqueeze(1))


@model(S2, "bias | relu | softmax(axes=ch)")
class JoinedWithChannels(Conv):
    """Channels and rows are one axis."""

    def forward(self, x):
        x = F.relu(self.conv(x))
        return torch.softmax(x.flatten(1, 2), dim=1)
