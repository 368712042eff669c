# SPDX-License-Identifier: Apache-2.0
"""Decoders of segmentation networks, autoencoders and mask heads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .spellings import LayerNorm2d


def double(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
        nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


@model((1, 3, 16, 16), "batch_norm(affine) | relu | conv_transpose | bias | cat",
       "batch_norm(affine) | relu | conv_transpose | bias | cat", short=True)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = double(3, 8), double(8, 16), double(16, 32)
        self.up2, self.conv2 = nn.ConvTranspose2d(32, 16, 2, stride=2), double(32, 16)
        self.up1, self.conv1 = nn.ConvTranspose2d(16, 8, 2, stride=2), double(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        x = self.bottom(F.max_pool2d(b, 2))
        x = self.conv2(torch.cat([b, self.up2(x)], dim=1))
        x = self.conv1(torch.cat([a, self.up1(x)], dim=1))
        return self.out(x)


class StackedConvBlocks(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv3d(a, b, 3, padding=1)
        self.norm = nn.InstanceNorm3d(b, eps=1e-5, affine=True)
        self.nonlin = nn.LeakyReLU(0.01, inplace=True)

    def forward(self, x):
        return self.nonlin(self.norm(self.conv(x)))


@model((1, 1, 8, 8, 8), "leaky_relu(0.01) | conv_transpose | bias | cat", "bias | cat")
class NnUNet3d(nn.Module):
    """Kernel = stride, then a concatenation, with deep supervision."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([StackedConvBlocks(1, 4), StackedConvBlocks(4, 8), StackedConvBlocks(8, 16)])
        self.transpconvs = nn.ModuleList([nn.ConvTranspose3d(16, 8, 2, 2), nn.ConvTranspose3d(8, 4, 2, 2)])
        self.stages = nn.ModuleList([StackedConvBlocks(16, 8), StackedConvBlocks(8, 4)])
        self.heads = nn.ModuleList([nn.Conv3d(8, 2, 1), nn.Conv3d(4, 2, 1)])

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.encoder):
            x = stage(x if i == 0 else F.max_pool3d(x, 2))
            skips.append(x)
        outputs = []
        for i, up in enumerate(self.transpconvs):
            x = torch.cat((up(x), skips[-(i + 2)]), 1)
            x = self.stages[i](x)
            outputs.append(self.heads[i](x))
        return outputs[::-1]


@model((2, 4, 5, 6), "instance_norm(affine) | leaky_relu(0.01)", dynamic=(0, 2, 3), short=True)
class InstanceNormDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(
            nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1, bias=False),
            nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.01, inplace=True), nn.Conv2d(8, 2, 3, padding=1))

    def forward(self, x):
        return self.block(x)


class ADN(nn.Sequential):
    """As MONAI orders them: norm, dropout, activation."""

    def __init__(self, channels):
        super().__init__()
        self.add_module("N", nn.InstanceNorm3d(channels))
        self.add_module("D", nn.Dropout(0.1))
        self.add_module("A", nn.PReLU())


class Convolution(nn.Sequential):
    def __init__(self, a, b, last=False):
        super().__init__()
        self.add_module("conv", nn.ConvTranspose3d(a, b, 3, stride=2, padding=1, output_padding=1))
        if not last:
            self.add_module("adn", ADN(b))


@model((1, 8, 3, 4, 4), "bias | instance_norm | prelu", "bias")
class MonaiUNetDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Sequential(Convolution(8, 4), Convolution(4, 2, last=True))

    def forward(self, x):
        return self.up(x)


@model((1, 6, 4, 4, 4), "bias", "bias")
class MonaiUnetr(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ConvTranspose3d(6, 4, 2, 2, bias=True)
        self.blocks = nn.Sequential(nn.ConvTranspose3d(4, 4, 2, 2), nn.Conv3d(4, 4, 3, padding=1), nn.InstanceNorm3d(4))
        self.residual = nn.Conv3d(4, 4, 1)

    def forward(self, x):
        x = self.first(x)
        y = self.blocks(x)
        return F.leaky_relu(y + self.residual(F.interpolate(x, scale_factor=2)), 0.01)


@model((1, 16, 4, 4), "bias | layer_norm(channels, eps=1e-06) | mul(channel) | add(channel) | gelu", "bias | gelu",
       dynamic=(0, 2, 3))
class SamMaskDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.upscaling = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 2, stride=2), LayerNorm2d(8), nn.GELU(),
            nn.ConvTranspose2d(8, 4, 2, stride=2), nn.GELU())
        self.tokens = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        up = self.upscaling(x)
        b, c, h, w = up.shape
        return (self.tokens @ up.view(b, c, h * w)).view(b, -1, h, w)


@model((2, 7), "bias | batch_norm(affine) | leaky_relu(0.01)", "bias | batch_norm(affine) | leaky_relu(0.01)",
       "bias | batch_norm(affine) | leaky_relu(0.01)")
class VaeDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(7, 16 * 4)
        dims = [16, 8, 4]
        self.decoder = nn.Sequential(*(
            nn.Sequential(
                nn.ConvTranspose2d(a, b, kernel_size=3, stride=2, padding=1, output_padding=1), nn.BatchNorm2d(b),
                nn.LeakyReLU())
            for a, b in zip(dims, dims[1:])))
        self.final = nn.Sequential(
            nn.ConvTranspose2d(4, 4, kernel_size=3, stride=2, padding=1, output_padding=1), nn.BatchNorm2d(4),
            nn.LeakyReLU(), nn.Conv2d(4, 3, kernel_size=3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.final(self.decoder(self.input(z).view(-1, 16, 2, 2)))


@model((2, 1, 12, 12), "bias | relu", "bias | sigmoid", dynamic=(0, 2, 3))
class ConvAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.t_conv1, self.t_conv2 = nn.ConvTranspose2d(4, 8, 2, stride=2), nn.ConvTranspose2d(8, 1, 2, stride=2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.t_conv1(x))
        return torch.sigmoid(self.t_conv2(x))


@model((1, 6, 4, 5), "add(tensor)", "add(tensor)")
class Fcn8s(nn.Module):
    """Upsampled scores, added to those of earlier stages."""

    def __init__(self):
        super().__init__()
        self.score = nn.Conv2d(6, 3, 1)
        self.up2 = nn.ConvTranspose2d(3, 3, 4, stride=2, padding=1, bias=False, groups=3)
        self.up4 = nn.ConvTranspose2d(3, 3, 4, stride=2, padding=1, bias=False)
        self.skip1, self.skip2 = nn.Conv2d(6, 3, 1), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        big = F.interpolate(x, scale_factor=2)
        s = self.up2(self.score(x))
        s = self.skip1(big) + s
        s = self.up4(s)
        return s + self.skip2(F.interpolate(big, scale_factor=2))


@model((1, 4, 4, 4, 4), "bias | batch_norm(affine) | relu", "bias | batch_norm(affine) | relu", dynamic=(0, 2, 3, 4))
class VNetUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up1, self.bn1 = nn.ConvTranspose3d(4, 6, 2, stride=2), nn.BatchNorm3d(6)
        self.up2, self.bn2 = nn.ConvTranspose3d(6, 2, 2, stride=2), nn.BatchNorm3d(2)
        self.drop = nn.Dropout3d()

    def forward(self, x):
        x = F.relu(self.bn1(self.up1(self.drop(x))))
        return F.relu(self.bn2(self.up2(x)))


@model((1, 4, 6, 6), "bias | layer_norm(channels, affine) | gelu | relu", "bias")
class ViTDetUpsampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.ConvTranspose2d(4, 8, 2, stride=2)
        self.norm = nn.LayerNorm(8)
        self.b = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        x = self.a(x)
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).contiguous()
        x = F.gelu(x)
        return self.b(F.relu(x))


@model((2, 8, 4, 4), "bias | relu", "bias | relu", "bias | softmax(axes=hw)", dynamic=(0,))
class KeypointHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.deconv = nn.ModuleList([
            nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.ConvTranspose2d(6, 3, 4, 2, 1)])

    def forward(self, x):
        for layer in self.deconv[:-1]:
            x = layer(x).relu_()
        x = self.deconv[-1](x)
        n, k, h, w = x.shape
        return torch.softmax(x.reshape(n, k, h * w), -1)


@model((2, 4, 6, 6), "batch_norm(affine) | relu | conv_transpose | batch_norm(affine) | relu",
       "batch_norm(affine) | relu", dynamic=(0, 2, 3))
class LinkNetDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(4, 2, 1, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True))
        self.tp = nn.Sequential(
            nn.ConvTranspose2d(2, 2, 3, 2, 1, output_padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True))
        self.tp2 = nn.Sequential(
            nn.ConvTranspose2d(2, 4, 3, 2, 1, output_padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.tp2(self.tp(self.conv1(x)))
