# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution, then two to six operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model

S2 = (2, 5, 7, 9)
S3 = (2, 5, 4, 6, 5)


class Conv(nn.Module):
    def __init__(self, dims: int = 2, out: int = 6, **options: object) -> None:
        super().__init__()
        kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]
        self.conv = kind(5, out, 3, **{"stride": 2, "padding": 1, "output_padding": 1, **options})
        self.bias = nn.Parameter(torch.randn(out, *(1,) * dims))


@model(S2, "bias | add(channel) | clamp(min=0, max=1) | mul(2) | clamp(min=0, max=1) | div(2)", short=True)
class BiasClampScaleClampDivide(Conv):
    def forward(self, x):
        x = self.conv(x) + self.bias
        x = torch.clamp(x, min=0.0, max=1.0)
        x = x * 2.0
        x = torch.clamp(x, min=0.0, max=1.0)
        return x / 2.0


@model(S3, "bias | add(channel) | layer_norm(trailing=1, affine) | avg_pool(2) | gelu", short=True)
class SumNormPoolGelu(Conv):
    def __init__(self):
        super().__init__(3)
        self.sum_weight = nn.Parameter(torch.tensor(0.7))
        self.norm = nn.LayerNorm((10,))
        self.pool = nn.AvgPool3d(kernel_size=(2, 2, 2))
        self.gelu = nn.GELU()

    def forward(self, x):
        return self.gelu(self.pool(self.norm(self.conv(x) + self.sum_weight)))


@model(S2, "bias | sub(channel) | tanh")
class SubtractTanh(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = x - self.bias
        return torch.tanh(x)


@model(S2, "bias | max_pool(2) | hardtanh(-1, 1) | global_avg_pool | tanh", dynamic=(0, 2, 3))
class PoolHardtanhMeanTanh(Conv):
    def __init__(self):
        super().__init__()
        self.maxpool = nn.MaxPool2d(2, stride=2)
        self.hardtanh = nn.Hardtanh(min_val=-1, max_val=1)

    def forward(self, x):
        x = self.hardtanh(self.maxpool(self.conv(x)))
        x = torch.mean(x, dim=(2, 3), keepdim=True)
        return torch.tanh(x)


@model(S2, "bias | batch_norm(affine) | tanh | max_pool(2) | group_norm(3, affine)")
class BatchNormTanhPoolGroupNorm(Conv):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(6)
        self.pool = nn.MaxPool2d(2)
        self.groups = nn.GroupNorm(3, 6)

    def forward(self, x):
        return self.groups(self.pool(torch.tanh(self.norm(self.conv(x)))))


@model(S3, "bias | mean | add(channel) | softmax | tanh | mul(2)")
class MeanAddSoftmaxTanhScale(Conv):
    def __init__(self):
        super().__init__(3)
        self.one = nn.Parameter(torch.randn(1, 1, 1, 1, 1))

    def forward(self, x):
        x = torch.mean(self.conv(x), dim=1, keepdim=True)
        x = F.softmax(x + self.one, dim=1)
        return torch.tanh(x) * 2.0


@model(S3, "bias | batch_norm(affine) | keep(v0) | global_avg_pool | mul(-1) | add(v0)")
class BatchNormMinusMean(Conv):
    def __init__(self):
        super().__init__(3)
        self.norm = nn.BatchNorm3d(6)

    def forward(self, x):
        x = self.norm(self.conv(x))
        return x - torch.mean(x, dim=(2, 3, 4), keepdim=True)


@model(S2, "bias | mish | add(0.5) | hardtanh(-1, 1) | mul(2)", dynamic=(0, 2, 3))
class MishAddHardtanhScale(Conv):
    def forward(self, x):
        x = F.mish(self.conv(x))
        x = x + 0.5
        x = F.hardtanh(x, min_val=-1, max_val=1)
        return x * 2


@model(S3, "mul(2) | add(channel) | mul(conv) | add(channel)")
class ResidualOfItself(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        x = self.conv(x)
        original = x.clone().detach()
        x = x + self.bias
        x = x + original
        x = x * original
        return x + original


@model(S3, "bias | layer_norm(trailing=1, affine) | gelu | mul(3)")
class NormGeluScale(Conv):
    def __init__(self):
        super().__init__(3)
        self.norm = nn.LayerNorm(10)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x))) * 3.0


@model(S3, "bias | clamp(min=0, max=1) | softmax(axes=dhw) | mul(channel)")
class PoolClampSpatialSoftmaxScale(Conv):
    def __init__(self):
        super().__init__(3)
        self.scale = nn.Parameter(torch.ones(1, 6, 1, 1, 1))

    def forward(self, x):
        x = torch.clamp(self.conv(F.avg_pool3d(x, 2)), 0, 1)
        b, c, d, h, w = x.shape
        x = F.softmax(x.view(b, c, -1), dim=2).view(b, c, d, h, w)
        return x * self.scale


@model(S2, "bias | global_avg_pool | add(channel) | logsumexp | mul(10)", dynamic=(0, 2, 3))
class AverageBiasLogSumExp(Conv):
    def forward(self, x):
        x = torch.mean(self.conv(x), dim=(2, 3), keepdim=True)
        x = x + self.bias
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = torch.sum(x, dim=(2, 3))
        return x * 10.0


@model(S2, "bias | mul(0.5) | global_avg_pool")
class ScaleAverageAverage(Conv):
    def forward(self, x):
        x = self.conv(x) * 0.5
        x = torch.mean(x, dim=[2, 3], keepdim=True)
        return torch.mean(x, dim=[2, 3], keepdim=True)


@model(S3, "bias | softmax | sigmoid", short=True)
class SoftmaxSigmoid(Conv):
    def __init__(self):
        super().__init__(3, bias=True)
        self.softmax = nn.Softmax(dim=1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.softmax(self.conv(x)))


@model(S3, "bias | mul(channel) | avg_pool(2) | add(channel) | mul(channel)")
class ScalePoolBiasScale(Conv):
    def __init__(self):
        super().__init__(3)
        self.scale1 = nn.Parameter(torch.tensor(0.5))
        self.scale2 = nn.Parameter(torch.tensor(1.5))
        self.pool = nn.AvgPool3d(kernel_size=2)

    def forward(self, x):
        x = self.conv(x) * self.scale1
        return (self.pool(x) + self.bias) * self.scale2


@model(S3, "bias | logsumexp | keep(v0) | add(3) | sigmoid | mul(v0) | div(6) | sub(0.1) | clamp(min=-1, max=1)")
class LogSumExpHandwrittenSwish(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        x = torch.logsumexp(self.conv(x), dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6
        return torch.clamp(x - 0.1, min=-1, max=1)


@model(S3, "bias | silu | group_norm(2, affine) | hardswish")
class SwishGroupNormHardswish(Conv):
    def __init__(self):
        super().__init__(3)
        self.norm = nn.GroupNorm(num_groups=2, num_channels=6, eps=1e-5)

    def forward(self, x):
        x = self.conv(x)
        x = torch.sigmoid(x) * x
        return F.hardswish(self.norm(x))


@model(S3, "relu | group_norm(3, affine)")
class ReluGroupNorm(Conv):
    def __init__(self):
        super().__init__(3, bias=False)
        self.relu = nn.ReLU()
        self.norm = nn.GroupNorm(3, 6)

    def forward(self, x):
        return self.norm(self.relu(self.conv(x)))


@model(S3, "bias | batch_norm(affine) | avg_pool(2) | avg_pool(2)")
class BatchNormPoolPool(Conv):
    def __init__(self):
        super().__init__(3)
        self.tail = nn.Sequential(nn.BatchNorm3d(6), nn.AvgPool3d(2), nn.AvgPool3d(2))

    def forward(self, x):
        return self.tail(self.conv(x))


@model(S3, "bias | leaky_relu(0.2) | mul(channel) | leaky_relu(0.2) | max_pool(2)")
class LeakyScaleLeakyPool(Conv):
    def __init__(self):
        super().__init__(3)
        self.leaky = nn.LeakyReLU(negative_slope=0.2)
        self.pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x):
        x = self.leaky(self.conv(x))
        x = x * self.bias
        return self.pool(self.leaky(x))


@model(S3, "bias | mul(2) | batch_norm(affine) | global_avg_pool")
class ScaleBatchNormAverage(Conv):
    def __init__(self):
        super().__init__(3)
        self.norm = nn.BatchNorm3d(6, eps=1e-5, momentum=0.1)
        self.average = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x):
        x = self.conv(x)
        x = x * 2.0
        return self.average(self.norm(x))


@model((1, 5, 7, 8, 9), "bias | max_pool(2) | max_pool(3) | sum", dynamic=(0, 2, 3, 4), short=True)
class MaxMaxSum(Conv):
    def __init__(self):
        super().__init__(3)
        self.pool1 = nn.MaxPool3d(kernel_size=2)
        self.pool2 = nn.MaxPool3d(kernel_size=3)

    def forward(self, x):
        return torch.sum(self.pool2(self.pool1(self.conv(x))), dim=1, keepdim=True)


@model(S3, "bias | max_pool(2) | softmax | sub(channel) | silu | max")
class PoolSoftmaxSubtractSwishMax(Conv):
    def __init__(self):
        super().__init__(3)
        self.pool = nn.MaxPool3d(2, stride=2, padding=0)
        self.subtract = nn.Parameter(torch.randn(6))

    def forward(self, x):
        x = torch.softmax(self.pool(self.conv(x)), dim=1)
        x = x - self.subtract.view(1, -1, 1, 1, 1)
        x = torch.sigmoid(x) * x
        return torch.max(x, dim=1)[0]


@model(S2, "bias | softmax | add(channel) | mul(2) | sigmoid")
class SoftmaxBiasScaleSigmoid(Conv):
    def forward(self, x):
        x = torch.softmax(self.conv(x), dim=1)
        x = x + self.bias
        x = x * 2.0
        return torch.sigmoid(x)


@model(S2, "bias | add(0.5) | clamp(max=0) | gelu | mul(2)")
class AddMinGeluMultiply(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = x + 0.5
        x = torch.min(x, torch.tensor(0.0, device=x.device))
        x = F.gelu(x)
        return x * 2.0


@model(S3, "bias | mul(0.5) | max_pool(2) | global_avg_pool | clamp(min=0, max=1)")
class ScalePoolAverageClamp(Conv):
    def __init__(self):
        super().__init__(3)
        self.pool = nn.MaxPool3d(kernel_size=2)
        self.average = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x):
        x = self.conv(x) * 0.5
        return torch.clamp(self.average(self.pool(x)), min=0, max=1)


@model(S3, "bias | clamp(min=-1) | div(2)")
class ClampDivide(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        return torch.clamp(self.conv(x), min=-1.0) / 2


@model(S2, "bias | min | sum(axes=h) | gelu")
class MinSumGeluAdd(Conv):
    def forward(self, x):
        x = torch.min(self.conv(x), dim=1, keepdim=True)[0]
        x = torch.sum(x, dim=2, keepdim=True)
        return F.gelu(x) + self.bias


@model(S2, "bias | gelu | group_norm(2, affine)", dynamic=(0, 2, 3))
class GeluGroupNorm(Conv):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=2, num_channels=6)

    def forward(self, x):
        return self.norm(F.gelu(self.conv(x)))
