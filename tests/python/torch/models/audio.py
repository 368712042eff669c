# SPDX-License-Identifier: Apache-2.0
"""Vocoders and codecs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from . import model


class ResBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(channels, channels, 3, dilation=d, padding=d) for d in (1, 3)])

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


@model((1, 8, 10), "leaky_relu(0.1) | conv_transpose | bias",
       "div(2) | leaky_relu(0.1) | conv_transpose | bias", dynamic=(0, 2), short=True)
class HifiGan(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.Conv1d(8, 16, 7, padding=3)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(16, 8, 8, 4, padding=2), nn.ConvTranspose1d(8, 4, 4, 2, padding=1)])
        self.blocks = nn.ModuleList([ResBlock(8), ResBlock(8), ResBlock(4), ResBlock(4)])
        self.post = nn.Conv1d(4, 1, 7, padding=3)

    def forward(self, x):
        x = self.pre(x)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            sums = None
            for block in self.blocks[2 * i : 2 * i + 2]:
                sums = block(x) if sums is None else sums + block(x)
            x = sums / 2
        return torch.tanh(self.post(F.leaky_relu(x)))


class CausalConvTranspose1d(nn.Module):
    """Trims what a causal convolution adds at the end."""

    def __init__(self, a, b, kernel, stride):
        super().__init__()
        self.convtr = weight_norm(nn.ConvTranspose1d(a, b, kernel, stride))
        self.trim = kernel - stride

    def forward(self, x):
        y = self.convtr(x)
        return y[..., : y.shape[-1] - self.trim]


@model((1, 8, 9), "elu(1) | conv_transpose | bias", "elu(1) | conv_transpose | bias", dynamic=(0, 2))
class Encodec(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv1d(8, 8, 7, padding=3), nn.ELU(), CausalConvTranspose1d(8, 4, 8, 4), nn.ELU(),
            CausalConvTranspose1d(4, 2, 4, 2), nn.ELU(), nn.Conv1d(2, 1, 7, padding=3))

    def forward(self, x):
        return self.model(x)


class Snake(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, channels, 1) + 0.5)

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


@model((1, 6, 8), "snake | conv_transpose | bias | snake", "bias | tanh", dynamic=(0, 2))
class BigVgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.snake1, self.up1 = Snake(6), nn.ConvTranspose1d(6, 4, 4, 2, 1)
        self.snake2, self.up2 = Snake(4), nn.ConvTranspose1d(4, 1, 4, 2, 1)

    def forward(self, x):
        x = self.up1(self.snake1(x))
        return torch.tanh(self.up2(self.snake2(x)))


class DacSnake(Snake):
    """As the Descript codec writes it, for any number of axes."""

    def forward(self, x):
        shape = x.shape
        x = x.reshape(shape[0], shape[1], -1)
        x = x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)
        return x.reshape(shape)


@model((1, 8, 9), "snake | conv_transpose | bias", "snake | conv_transpose | bias", dynamic=(0, 2))
class DacDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv1d(8, 8, 7, padding=3), DacSnake(8), weight_norm(nn.ConvTranspose1d(8, 4, 8, 4, padding=2)),
            nn.Conv1d(4, 4, 3, padding=1), DacSnake(4), weight_norm(nn.ConvTranspose1d(4, 2, 4, 2, padding=1)), nn.Conv1d(2, 1, 7))

    def forward(self, x):
        return torch.tanh(self.model(x))


@model((1, 4, 16), "bias | relu", "bias")
class Demucs(nn.Module):
    """A gated layer, then upsampling with relu; the last layer is bare."""

    def __init__(self):
        super().__init__()
        self.gate1, self.up1 = nn.Conv1d(4, 8, 1), nn.ConvTranspose1d(4, 4, 8, 4)
        self.gate2, self.up2 = nn.Conv1d(4, 8, 1), nn.ConvTranspose1d(4, 2, 8, 4)

    def forward(self, x):
        x = F.relu(self.up1(F.glu(self.gate1(x), 1)))
        return self.up2(F.glu(self.gate2(x), 1))


@model((2, 6, 9), "bias | batch_norm(affine) | relu | global_avg_pool", dynamic=(0,))
class WaveDecoderHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(6, 4, 5, 2, 2, 1)
        self.norm = nn.BatchNorm1d(4)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.up(x)))).squeeze(-1)
        return self.head(x)
