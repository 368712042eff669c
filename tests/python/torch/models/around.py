# SPDX-License-Identifier: Apache-2.0
"""What stands before transposed convolutions, and concatenations behind them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .chains import S2, S3, Conv


class Before(Conv):
    """An operation before the convolution, which sees padding behind it."""

    def __init__(self, dims=2):
        super().__init__(dims)
        self.shift = nn.Parameter(torch.randn(5, *[1] * dims))


@model(S2, "leaky_relu(0.1) | conv_transpose | bias", dynamic=(0, 2, 3), short=True)
class LeakyBefore(Before):
    def forward(self, x):
        return self.conv(F.leaky_relu(x, 0.1))


@model(S2, "add(1) | mul(channel) | sigmoid | conv_transpose | bias | relu", dynamic=(0, 2, 3))
class SeveralBefore(Before):
    def forward(self, x):
        return F.relu(self.conv(torch.sigmoid((x + 1) * self.shift)))


@model(S3, "batch_norm(affine) | relu | conv_transpose | bias | tanh")
class NormBefore(nn.Module):
    """As DenseNets and pre-activation ResNets order them."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv3d(5, 4, 1), nn.BatchNorm3d(4), nn.ReLU(inplace=True), nn.ConvTranspose3d(4, 3, 3, 2, 1))

    def forward(self, x):
        return torch.tanh(self.block(x))


@model(S2, "silu | conv_transpose | bias")
class HandwrittenBefore(Before):
    """The value itself is used elsewhere too."""

    def forward(self, x):
        x = x * 2
        x = torch.exp(x)
        return self.conv(x * torch.sigmoid(x)), x


@model(S2, "mul(2) | snake | conv_transpose | bias | add(channel) | snake")
class SnakeAround(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(5, 6, 4, stride=2)
        self.alpha = nn.Parameter(torch.rand(1, 5, 1, 1) + 0.5)
        self.beta = nn.Parameter(torch.rand(6, 1, 1) + 0.5)

    def forward(self, x):
        x = x * 2
        x = x + 1.0 / (self.alpha + 1e-9) * torch.pow(torch.sin(x * self.alpha), 2)
        x = self.conv(x) + self.beta
        return x + torch.sin(self.beta * x).square() / (self.beta + 1e-9)


@model((2, 10, 5, 6), "prelu | conv_transpose | bias", "bias", dynamic=(0, 2, 3), brief=True)
class SplitInput(nn.Module):
    """Reads halves of a tensor's channels."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.ConvTranspose2d(5, 4, 3, 2), nn.ConvTranspose2d(5, 4, 3, 2)
        self.act = nn.PReLU(5)

    def forward(self, x):
        a, b = torch.chunk(x, 2, dim=1)
        return self.left(self.act(a)), self.right(b)


# ---- concatenations


@model(S2, "bias | cat", dynamic=(0, 2, 3), short=True)
class JoinFirst(Conv):
    def forward(self, x):
        y = self.conv(x)
        return torch.cat([y, torch.cumsum(F.interpolate(x, y.shape[2:]), 1)], 1)


@model(S3, "relu | conv_transpose | bias | leaky_relu(0.2) | cat")
class JoinLast(nn.Module):
    """A skip on the left, as pix2pix has it, and a plane of coordinates besides."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv3d(5, 7, 2, stride=2)
        self.up = nn.ConvTranspose3d(7, 6, 2, stride=2)

    def forward(self, x):
        size = [n // 2 * 2 for n in x.shape[2:]]
        skip = x[:, :, : size[0], : size[1], : size[2]]
        y = F.leaky_relu(self.up(F.relu(self.down(skip))), 0.2)
        return torch.cat((skip, y, skip[:, :1]), dim=-4)


@model(S2, "bias | cat", "bias", dynamic=(0,))
class JoinTwo(nn.Module):
    """Two convolutions in one concatenation: the first writes into it, the second is copied."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.ConvTranspose2d(5, 3, 2, stride=2), nn.ConvTranspose2d(5, 4, 2, stride=2)

    def forward(self, x):
        return torch.concat([self.a(x), self.b(x)], dim=1).relu()


@model(S2, "bias | cat")
class PaddedToTheSkip(Conv):
    """Sizes that agree already: nothing is padded."""

    def forward(self, x):
        skip = torch.cumsum(F.interpolate(x, scale_factor=2), 1)
        y = self.conv(x)
        dy, dx = skip.size(2) - y.size(2), skip.size(3) - y.size(3)
        y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return torch.cat([skip, y], dim=1)


@model(S2, "bias | leaky_relu(0.2) | mul(0.5) | add(tensor)", brief=True)
class ScaledResidual(Conv):
    def forward(self, x):
        y = F.rrelu(self.conv(x), 0.1, 0.3, training=False)
        return torch.add(F.interpolate(x, y.shape[2:])[:, :1].expand(-1, 6, -1, -1).contiguous(), y, alpha=0.5)


# ---- what must not be taken, or not whole


@model(S2, "bias", brief=True)
class SeenBefore(Before):
    """What stands before the convolution is used elsewhere too."""

    def forward(self, x):
        x = F.relu(x)
        return self.conv(x), x


@model(S2, "bias")
class WritesItsInput(Before):
    """In place, into the caller's tensor."""

    def forward(self, x):
        return self.conv(F.relu_(x))


@model(S2, "bias | add(channel)", brief=True)
class SourceWrittenMeanwhile(Before):
    def forward(self, x):
        x = x * 3
        y = F.relu(x)
        x.add_(1)
        return self.conv(y) + x.sum()


@model(S2, "bias", brief=True)
class ResidualBefore(Before):
    def forward(self, x):
        return self.conv(x + torch.cumsum(x, 1))


@model(S2, "bias", brief=True)
class JoinAlongHeight(Conv):
    def forward(self, x):
        y = self.conv(x)
        return torch.cat([y, torch.ones_like(y)], 2)


@model(S2, "bias", brief=True)
class JoinTwice(Conv):
    def forward(self, x):
        y = self.conv(x)
        return torch.cat([y, y], 1)


@model(S2, "bias", brief=True)
class JoinOfLargeSums(Conv):
    """Inductor computes the other part in its place, which is the larger one."""

    def forward(self, x):
        y = self.conv(x)
        return torch.cat([y, F.interpolate(x, y.shape[2:]).repeat(1, 3, 1, 1) + 1], 1)


@model(S2, "bias | relu", brief=True)
class JoinOfOtherType(Conv):
    def forward(self, x):
        y = F.relu(self.conv(x))
        return torch.cat([y, torch.zeros(y.shape, dtype=torch.float64)], 1)
