# SPDX-License-Identifier: Apache-2.0
"""Published networks, made small, with the ways of writing that their sources have."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from . import model


@model((2, 8, 5, 5), "", dynamic=())
class StyleGan2Upsample(nn.Module):
    """Weights modulated per image: the batch is in the groups."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 6, 8, 3, 3))
        self.modulation = nn.Linear(8, 8)
        self.noise, self.bias = nn.Parameter(torch.rand(1)), nn.Parameter(torch.randn(1, 6, 1, 1))

    def forward(self, x):
        b, c, h, w = x.shape
        style = self.modulation(x.mean((2, 3))).view(b, 1, c, 1, 1)
        weight = self.weight * style
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(b, 6, 1, 1, 1)
        weight = weight.transpose(1, 2).reshape(b * c, 6, 3, 3)
        y = F.conv_transpose2d(x.view(1, b * c, h, w), weight, padding=0, stride=2, groups=b)
        y = y.view(b, 6, y.shape[2], y.shape[3])
        y = y + self.noise * torch.ones_like(y[:, :1])
        return F.leaky_relu(y + self.bias, 0.2) * math.sqrt(2)


@model((2, 12), "relu | conv_transpose | bias | relu", "bias | relu", "bias | tanh")
class WaveGan(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 16 * 4)
        self.deconv = nn.ModuleList([
            nn.ConvTranspose1d(a, b, 25, stride=4, padding=11, output_padding=1) for a, b in ((16, 8), (8, 4), (4, 1))])

    def forward(self, z):
        x = F.relu(self.fc(z).view(-1, 16, 4))
        for layer in self.deconv[:-1]:
            x = F.relu(layer(x))
        return torch.tanh(self.deconv[-1](x))


class ResnetBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.block = nn.Sequential(
            nn.LeakyReLU(0.2), nn.ReflectionPad1d(dilation), weight_norm(nn.Conv1d(channels, channels, 3, dilation=dilation)),
            nn.LeakyReLU(0.2), weight_norm(nn.Conv1d(channels, channels, 1)))
        self.shortcut = weight_norm(nn.Conv1d(channels, channels, 1))

    def forward(self, x):
        return self.shortcut(x) + self.block(x)


@model((1, 6, 10), "leaky_relu(0.2) | conv_transpose | bias", "leaky_relu(0.2) | conv_transpose | bias", dynamic=(0, 2),
       brief=True)
class MelGan(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.ReflectionPad1d(3), weight_norm(nn.Conv1d(6, 16, 7))]
        for channels, ratio in ((16, 8), (8, 2)):
            layers += [nn.LeakyReLU(0.2), weight_norm(nn.ConvTranspose1d(
                channels, channels // 2, ratio * 2, ratio, ratio // 2 + ratio % 2, output_padding=ratio % 2))]
            layers += [ResnetBlock(channels // 2, 3**j) for j in range(2)]
        self.model = nn.Sequential(*layers, nn.LeakyReLU(0.2), nn.ReflectionPad1d(3), nn.Conv1d(4, 1, 7), nn.Tanh())

    def forward(self, x):
        return self.model(x)


@model((2, 3, 16, 16), "relu | conv_transpose | bias | relu", "bias")
class VqVae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1))
        self.codes = nn.Embedding(10, 16)
        self.decoder = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(True), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 16)
        distance = flat.pow(2).sum(1, keepdim=True) + self.codes.weight.pow(2).sum(1) - 2 * flat @ self.codes.weight.t()
        quantized = self.codes(distance.argmin(1)).view(z.shape[0], z.shape[2], z.shape[3], 16).permute(0, 3, 1, 2)
        return self.decoder(z + (quantized - z).detach())


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv3d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.ReLU(inplace=True), nn.Conv3d(b, b, 3, padding=1),
            nn.GroupNorm(2, b), nn.ReLU(inplace=True))


@model((1, 1, 8, 8, 8), "relu | conv_transpose | bias | add(tensor)", "relu | conv_transpose | bias | add(tensor)", brief=True)
class ResidualUNet3d(nn.Module):
    """Skips are summed."""

    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleList([DoubleConv(1, 4), DoubleConv(4, 8), DoubleConv(8, 16)])
        self.ups = nn.ModuleList([nn.ConvTranspose3d(16, 8, 3, 2, 1, 1), nn.ConvTranspose3d(8, 4, 3, 2, 1, 1)])
        self.decoders = nn.ModuleList([DoubleConv(8, 8), DoubleConv(4, 4)])
        self.final = nn.Conv3d(4, 2, 1)

    def forward(self, x):
        skips = []
        for encoder in self.encoders:
            x = encoder(F.max_pool3d(x, 2) if skips else x)
            skips.insert(0, x)
        for up, decoder, skip in zip(self.ups, self.decoders, skips[1:]):
            x = decoder(skip + up(x))
        return torch.sigmoid(self.final(x))


@model((1, 8, 3, 3, 3), "bias | batch_norm(affine) | elu(1) | cat", brief=True)
class VNetUpTransition(nn.Module):
    def __init__(self):
        super().__init__()
        self.up_conv, self.bn1 = nn.ConvTranspose3d(8, 4, kernel_size=2, stride=2), nn.BatchNorm3d(4)
        self.do1, self.do2 = nn.Dropout3d(), nn.Dropout3d()
        self.relu1, self.relu2 = nn.ELU(inplace=True), nn.PReLU(8)
        self.ops, self.skip = nn.Conv3d(8, 8, 5, padding=2), nn.Conv3d(8, 4, 1)

    def forward(self, x):
        skip = self.do2(F.interpolate(self.skip(x), scale_factor=2))
        out = self.relu1(self.bn1(self.up_conv(self.do1(x))))
        joined = torch.cat((out, skip), 1)
        return self.relu2(torch.add(self.ops(joined), joined))


@model((1, 8, 4, 4), "bias", brief=True)
class AttentionGate(nn.Module):
    """Attention U-Net: the result is used by the gate too."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.skip = nn.Conv2d(8, 4, 1)
        self.g = nn.Sequential(nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2))
        self.x = nn.Sequential(nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2))
        self.psi = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, x):
        skip = F.interpolate(self.skip(x), scale_factor=2)
        up = self.up(x)
        return torch.cat((skip * self.psi(self.g(up) + self.x(skip)), up), dim=1)


@model((1, 3, 16, 16), "bias | batch_norm(affine) | relu", "bias | log_softmax", brief=True)
class SegNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.up, self.norm = nn.ConvTranspose2d(16, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.out = nn.ConvTranspose2d(8, 3, 3, padding=1)

    def forward(self, x):
        x, first = F.max_pool2d(F.relu(self.down[0](x)), 2, return_indices=True)
        x, second = F.max_pool2d(F.relu(self.down[1](x)), 2, return_indices=True)
        x = F.relu(self.norm(self.up(F.max_unpool2d(x, second, 2))))
        return F.log_softmax(self.out(F.max_unpool2d(x, first, 2)), dim=1)


@model((1, 1, 8, 8), "prelu | conv_transpose | bias | clamp(min=0, max=1)", dynamic=(0, 2, 3))
class FsrcnnPrelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.PReLU(8))
        self.mid = nn.Sequential(nn.Conv2d(8, 4, 1), nn.PReLU(4), nn.Conv2d(4, 4, 3, padding=1), nn.PReLU(4),
                                 nn.Conv2d(4, 8, 1), nn.PReLU(8))
        self.last = nn.ConvTranspose2d(8, 1, 9, stride=2, padding=4, output_padding=1)

    def forward(self, x):
        return self.last(self.mid(self.first(x))).clamp(0.0, 1.0)


@model((1, 8, 4, 4), "cat", "batch_norm(affine) | relu | conv_transpose | bias", brief=True)
class DeepLabHead(nn.Module):
    """Depthwise upsampling, a low level beside it, and scores by a large stride."""

    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(8, 2, 1, bias=False), nn.BatchNorm2d(2), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 8, 4, 2, 1, groups=8, bias=False)
        self.out = nn.Sequential(
            nn.Conv2d(10, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5),
            nn.ConvTranspose2d(4, 3, 8, 4, 2))

    def forward(self, x):
        low = self.low(F.interpolate(x, scale_factor=2))
        return self.out(torch.cat((self.up(x), low), dim=1))


class ResnetBlock2d(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, channels, eps=1e-6), nn.GroupNorm(2, channels, eps=1e-6)
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(h)))


@model((1, 4, 4, 4), "bias", "silu | conv_transpose | bias | div(2) | add(0.5) | clamp(min=0, max=1)", dynamic=(0, 2, 3),
       brief=True)
class DiffusionVae(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_in, self.block1 = nn.Conv2d(4, 8, 3, padding=1), ResnetBlock2d(8)
        self.up1, self.block2 = nn.ConvTranspose2d(8, 8, 4, 2, 1), ResnetBlock2d(8)
        self.norm, self.up2 = nn.GroupNorm(2, 8, eps=1e-6), nn.ConvTranspose2d(8, 3, 4, 2, 1)

    def forward(self, z):
        h = self.block1(self.conv_in(z / 0.18215))
        h = self.block2(self.up1(h))
        return (self.up2(F.silu(self.norm(h))) / 2 + 0.5).clamp(0, 1)


@model((1, 8, 8, 8), "batch_norm(affine, eps=0.001) | relu | cat",
       "batch_norm(affine, eps=0.001) | relu | conv_transpose | batch_norm(affine, eps=0.001) | relu")
class PointPillarsNeck(nn.Module):
    """Several levels, brought to one size and joined: the first writes into the result, others are copied."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b, eps=1e-3, momentum=0.01), nn.ReLU())
            for a, b in ((8, 8), (8, 16)))
        self.deblocks = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(a, 6, n, stride=n, bias=False), nn.BatchNorm2d(6, eps=1e-3), nn.ReLU())
            for a, n in ((8, 1), (16, 2)))

    def forward(self, x):
        ups = []
        for block, deblock in zip(self.blocks, self.deblocks):
            x = block(x)
            ups.append(deblock(x))
        return torch.cat(ups, dim=1)


@model((1, 2, 64), "bias | relu | add(tensor)", "bias", dynamic=())
class DemucsWithCrops(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 8, 4), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)) for a, b in ((2, 8), (8, 16)))
        self.decoder = nn.ModuleList([
            nn.Sequential(nn.Conv1d(16, 32, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(16, 8, 8, 4), nn.ReLU()),
            nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(8, 2, 8, 4))])

    def forward(self, x):
        skips = []
        x = F.pad(x, (0, 20))
        for encode in self.encoder:
            x = encode(x)
            skips.append(x)
        for decode in self.decoder:
            skip = skips.pop(-1)
            x = decode(x + skip[..., : x.shape[-1]])
        return x[..., :64]


@model((1, 1, 64), "leaky_relu(0.01) | conv_transpose | bias | cat", dynamic=(0,), brief=True)
class WaveUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 8, 15, padding=7), nn.Conv1d(8, 16, 15, padding=7)
        self.up = nn.ConvTranspose1d(16, 16, 15, 2, 7, output_padding=1)
        self.conv, self.out = nn.Conv1d(24, 8, 5, padding=2), nn.Conv1d(9, 1, 1)

    def forward(self, x):
        a = F.leaky_relu(self.first(x))
        b = F.leaky_relu(self.second(a[:, :, ::2]))
        y = F.leaky_relu(self.conv(torch.cat([self.up(b), a], 1)))
        return torch.tanh(self.out(torch.cat([y, x], 1)))


@model((2, 12), "bias | batch_norm(affine) | relu", "bias | sigmoid", brief=True)
class MnistDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Sequential(nn.Linear(12, 32), nn.ReLU(True), nn.Unflatten(dim=1, unflattened_size=(8, 2, 2)))
        self.conv = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=0), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1))

    def forward(self, z):
        return torch.sigmoid(self.conv(self.lin(z)))


@model((2, 6, 8), "bias | layer_norm(channels, affine) | mul(channel) | gelu", dynamic=(0, 2), brief=True)
class ConvNextUp1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose1d(6, 4, 4, 2, 1), nn.LayerNorm(4)
        self.gamma = nn.Parameter(torch.rand(4))

    def forward(self, x):
        y = self.norm(self.up(x).transpose(1, 2))
        return F.gelu(self.gamma * y).transpose(1, 2)
