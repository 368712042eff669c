# SPDX-License-Identifier: Apache-2.0
"""Generators."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model


@model((3, 10, 1, 1), "batch_norm(affine) | relu", "batch_norm(affine) | relu", "tanh", short=True)
class Dcgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(10, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, x):
        return self.main(x)


@model((1, 8, 6, 6), "bias | instance_norm | relu", "bias | instance_norm | relu", dynamic=(0, 2, 3))
class CycleGan(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for a, b in ((8, 6), (6, 4)):
            layers += [nn.ConvTranspose2d(a, b, 3, stride=2, padding=1, output_padding=1), nn.InstanceNorm2d(b),
                       nn.ReLU(inplace=True)]
        self.model = nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(4, 3, 7), nn.Tanh())

    def forward(self, x):
        return self.model(x)


class UnetSkipBlock(nn.Module):
    """As pix2pix nests them."""

    def __init__(self, outer, inner, sub=None, outermost=False):
        super().__init__()
        self.outermost = outermost
        down = nn.Conv2d(outer, inner, 4, 2, 1, bias=False)
        if outermost:
            up = nn.ConvTranspose2d(inner * 2, outer, 4, 2, 1)
            layers = [down, sub, nn.ReLU(True), up, nn.Tanh()]
        elif sub is None:
            up = nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False)
            layers = [nn.LeakyReLU(0.2, True), down, nn.ReLU(True), up, nn.BatchNorm2d(outer)]
        else:
            up = nn.ConvTranspose2d(inner * 2, outer, 4, 2, 1, bias=False)
            layers = [nn.LeakyReLU(0.2, True), down, nn.BatchNorm2d(inner), sub, nn.ReLU(True), up,
                      nn.BatchNorm2d(outer), nn.Dropout(0.5)]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)


@model((1, 3, 16, 16), "relu | conv_transpose | batch_norm(affine) | cat",
       "relu | conv_transpose | batch_norm(affine) | cat", "relu | conv_transpose | bias | tanh")
class Pix2Pix(nn.Module):
    def __init__(self):
        super().__init__()
        block = UnetSkipBlock(8, 8)
        block = UnetSkipBlock(4, 8, block)
        self.model = UnetSkipBlock(3, 4, block, outermost=True)

    def forward(self, x):
        return self.model(x)


@model((2, 6, 2, 2, 2), "batch_norm(affine) | relu", "bias | sigmoid")
class Gan3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.deconv1, self.bn1 = nn.ConvTranspose3d(6, 4, 4, 2, 1, bias=False), nn.BatchNorm3d(4)
        self.deconv2 = nn.ConvTranspose3d(4, 1, 4, 2, 1)

    def forward(self, x):
        h = F.relu(self.bn1(self.deconv1(x)))
        return torch.sigmoid(self.deconv2(h)).squeeze(1)


@model((1, 4, 5, 5), "mul(channel) | add(channel) | leaky_relu(0.2) | mul(1.4142135623730951)", dynamic=(0, 2, 3))
class StyledUpsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6, 3, 3))
        self.demodulation = nn.Parameter(torch.rand(1, 6, 1, 1))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        out = F.conv_transpose2d(x, self.weight, padding=0, stride=2)
        out = out * self.demodulation
        return F.leaky_relu(out + self.bias.view(1, -1, 1, 1), negative_slope=0.2) * 2**0.5


@model((2, 6, 4, 4), "batch_norm(affine) | relu", "bias | tanh | mul(0.5) | add(0.5)")
class ConditionalGan(nn.Module):
    def __init__(self):
        super().__init__()
        self.label = nn.Parameter(torch.randn(1, 2, 4, 4))
        self.up1 = nn.ConvTranspose2d(8, 6, 4, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.up2 = nn.ConvTranspose2d(6, 1, 4, 2, 1)

    def forward(self, x):
        x = torch.cat([x, self.label.expand(x.shape[0], -1, -1, -1)], 1)
        x = self.bn1(self.up1(x)).relu()
        return torch.tanh(self.up2(x)) * 0.5 + 0.5


@model((1, 3, 8, 8), "prelu | conv_transpose | bias | add(tensor) | clamp(min=0, max=1)", dynamic=(0, 2, 3))
class Fsrcnn(nn.Module):
    """Superresolution: the last layer upsamples, and a bicubic picture is added."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.PReLU(8), nn.Conv2d(8, 8, 3, padding=1), nn.PReLU(8))
        self.last = nn.ConvTranspose2d(8, 3, 9, stride=2, padding=4, output_padding=1)

    def forward(self, x):
        low = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return (self.last(self.body(x)) + low).clamp(0, 1)
