# SPDX-License-Identifier: Apache-2.0
"""Models in which values are float32 for a while beside 16-bit floats: autocast's float32 list, parameters in float32,
and casts that people write. What rounds the value again ends the chain, not what widens it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model


class Up(nn.Module):
    """A transposed convolution, and a convolution behind all else, which autocast runs in 16 bits."""

    dims = 2

    def __init__(self):
        super().__init__()
        convolutions = {2: (nn.ConvTranspose2d, nn.Conv2d), 3: (nn.ConvTranspose3d, nn.Conv3d)}[self.dims]
        self.up, self.last = convolutions[0](6, 4, 2, 2), convolutions[1](4, 3, 3, padding=1)
        self.gamma = nn.Parameter(torch.rand(4, *(1,) * self.dims) + 0.5)
        self.beta = nn.Parameter(torch.rand(4, *(1,) * self.dims))


CHAIN = "bias | mul(channel) | add(channel) | relu"


@model((2, 6, 4, 5), CHAIN, autocast=(CHAIN,), dynamic=(0, 2, 3))
class ScaledThenConvolved(Up):
    """A parameter in float32 makes the value float32, and the next convolution rounds it."""

    def forward(self, x):
        return self.last(F.relu(self.up(x) * self.gamma + self.beta))


CHAIN = "bias | leaky_relu(0.01) | avg_pool(2) | mul(channel)"


@model((2, 6, 4, 4, 4), CHAIN, autocast=(CHAIN,))
class AveragedInFloat(Up):
    """avg_pool3d is on the CPU's float32 list."""

    dims = 3

    def forward(self, x):
        return self.last(F.avg_pool3d(F.leaky_relu(self.up(x)), 2) * self.gamma)


CHAIN = "bias | layer_norm(channels, affine) | gelu"


@model((2, 6, 4, 5), CHAIN, autocast=(CHAIN,), dynamic=(0, 2, 3))
class NormInFloat(Up):
    """As vision transformers write norms: in float32, and back."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        y = self.up(x)
        z = self.norm(y.permute(0, 2, 3, 1).float()).permute(0, 3, 1, 2).to(y.dtype)
        return self.last(F.gelu(z))


CHAIN = "bias | softmax"


@model((2, 6, 4, 5), CHAIN, autocast=(CHAIN,), brief=True)
class SoftmaxInFloat(Up):
    def forward(self, x):
        y = self.up(x)
        return F.softmax(y, dim=1, dtype=torch.float32).to(y.dtype)


@model((2, 6, 4, 5), "bias | mul(channel) | cat", autocast=("bias | mul(channel) | cat",), dynamic=(0, 2, 3))
class JoinedWithFloat(Up):
    """A skip in float32, and a concatenation of which the next convolution rounds every part."""

    def __init__(self):
        super().__init__()
        self.after = nn.Conv2d(7, 3, 1)

    def forward(self, x):
        skip = x.repeat_interleave(2, 2).repeat_interleave(2, 3)[:, :3]
        return self.after(torch.cat([self.up(x) * self.gamma, skip], 1))


CHAIN = "bias | keep(v0) | global_avg_pool | mul(channel) | sigmoid | mul(v0)"


@model((2, 6, 4, 5), CHAIN, autocast=(CHAIN,), dynamic=(0,))
class GatedInFloat(Up):
    def forward(self, x):
        y = self.up(x)
        gate = torch.sigmoid(y.mean((2, 3), keepdim=True) * self.gamma)
        return self.last(y * gate)


@model((2, 6, 4, 5), "bias | mul(channel) | tanh", "bias", autocast=("bias", "bias"))
class SeenInFloat(Up):
    """What a user sees in float32 is not rounded."""

    def __init__(self):
        super().__init__()
        self.second = nn.ConvTranspose2d(4, 2, 2, 2)

    def forward(self, x):
        y = torch.tanh(self.up(x) * self.gamma)
        return y, self.second(y)
