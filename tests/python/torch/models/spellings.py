# SPDX-License-Identifier: Apache-2.0
"""The same operations, spelled in other ways; and what must not be fused."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import model
from .chains import S2, S3, Conv


@model(S2, "bias | mul(2) | add(1) | relu | leaky_relu(0.3)", trains=False)
class InPlaceMethods(Conv):
    def forward(self, x):
        x = self.conv(x).mul_(2).add_(1.0)
        x.relu_()
        return F.leaky_relu_(x, 0.3)


@model(S2, "bias | mul(2) | sub(channel) | div(4) | add(3)")
class InPlaceOperators(Conv):
    def forward(self, x):
        y = self.conv(x)
        y *= 2
        y -= self.bias
        y /= 4
        y += 3
        return y


@model(S2, "bias | mul(-1) | add(1) | mul(-1) | mul(3) | add(0.5)")
class Turned(Conv):
    def forward(self, x):
        x = 1 - self.conv(x)
        x = -x
        x = 3 * x
        return torch.add(x, 0.25, alpha=2)


@model(S2, "bias | layer_norm(channels, affine) | gelu(tanh)", dynamic=(0, 2, 3), short=True)
class PermutedLayerNorm(Conv):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        x = self.conv(x)
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return F.gelu(x, approximate="tanh")


@model(S3, "bias | layer_norm(channels) | silu")
class MovedLayerNorm(Conv):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        x = self.conv(x).movedim(1, -1)
        x = F.layer_norm(x, (6,))
        return F.silu(x.movedim(-1, 1).contiguous())


@model((2, 5, 11), "bias | layer_norm(channels, affine, eps=1e-06) | relu", dynamic=(0, 2))
class TransposedLayerNorm(Conv):
    def __init__(self):
        super().__init__(1)
        self.norm = nn.LayerNorm(6, eps=1e-6)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x).transpose(1, 2)).transpose(1, 2))


@model(S2, "bias | layer_norm(channels, affine)")
class LeftPermuted(Conv):
    """The result is left channels-last, as attention behind it wants it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        x = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x.reshape(x.shape[0], -1, 6)


class LayerNorm2d(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


@model(S2, "bias | layer_norm(channels, eps=1e-06) | mul(channel) | add(channel) | gelu", dynamic=(0, 2, 3))
class HandwrittenLayerNorm(Conv):
    def __init__(self):
        super().__init__()
        self.norm = LayerNorm2d(6)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


@model(S2, "bias | layer_norm(channels, eps=0.001) | relu")
class HandwrittenLayerNormByVariance(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = (x - x.mean(dim=1, keepdim=True)) * torch.rsqrt(x.var(dim=1, keepdim=True, unbiased=False) + 1e-3)
        return x.relu()


@model(S2, "bias | mish | hardswish | silu")
class HandwrittenActivations(Conv):
    def forward(self, x):
        x = self.conv(x)
        x = x * torch.tanh(F.softplus(x))
        x = x * (F.relu6(x + 3) / 6)
        return x * x.sigmoid()


@model(S2, "bias | add(tensor) | relu", inputs=1)
class Residual(Conv):
    def __init__(self):
        super().__init__()
        self.skip = nn.Conv2d(5, 6, 1)

    def forward(self, x):
        skip = F.interpolate(self.skip(x), scale_factor=2)
        return F.relu(self.conv(x) + skip)


@model(S2, "bias | add(tensor) | mul(tensor) | tanh")
class ResidualFirst(Conv):
    def __init__(self):
        super().__init__()
        self.skip = nn.Conv2d(5, 12, 1)

    def forward(self, x):
        skip, gate = F.interpolate(self.skip(x), scale_factor=2).chunk(2, dim=1)
        return torch.tanh(gate * (skip + self.conv(x)))


@model(S2, "bias | clamp(max=0.5) | clamp(min=-0.5) | clamp(min=-0.4, max=0.4) | clamp(max=0.3) | clamp(min=-0.2)")
class Limits(Conv):
    def forward(self, x):
        x = self.conv(x).clamp_max(0.5)
        x = torch.clamp_min(x, -0.5)
        x = x.clip(-0.4, 0.4)
        x = torch.minimum(x, torch.tensor(0.3))
        return torch.maximum(torch.tensor(-0.2), x)


@model(S2, "bias | relu | global_avg_pool", dynamic=(0, 2, 3))
class Classifier(Conv):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout2d(0.4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.pool(self.drop(F.relu(self.conv(x), inplace=True)))
        return self.head(torch.flatten(x, 1))


@model(S2, "bias | elu(1) | global_avg_pool", dynamic=(0, 2, 3))
class Averaged(Conv):
    def forward(self, x):
        return F.elu(self.conv(x)).mean((-2, -1))


@model(S2, "bias | sum | sigmoid", dynamic=(0, 2, 3))
class SummedWithoutAxis(Conv):
    def forward(self, x):
        return self.conv(x).sum(1).sigmoid()


@model(S2, "bias | selu | relu6 | softplus(2, 10)")
class Activations(Conv):
    def forward(self, x):
        x = F.relu6(F.selu(self.conv(x)))
        return F.softplus(x, beta=2, threshold=10)


@model(S2, "bias | mul(channel) | add(channel) | max")
class Buffers(Conv):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(1, 6, 1, 1))
        self.register_buffer("shift", torch.rand(1, 6, 1, 1))

    def forward(self, x):
        x = torch.add(torch.mul(self.conv(x), self.scale), self.shift)
        return x.amax(dim=1)


@model(S2, "bias | instance_norm | leaky_relu(0.01) | max_pool(3, stride=2, padding=1, ceil)")
class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        x = F.conv_transpose2d(torch.cat([x, x], 1)[:, :4], self.weight[:4], bias=self.bias, stride=2, groups=2)
        x = F.leaky_relu(F.instance_norm(x))
        return F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)


# ---- what must not be fused


@model(S2, "bias")
class TwoUses(Conv):
    def forward(self, x):
        x = self.conv(x)
        return torch.relu(x), x.sum()


@model(S2, "bias | relu", trains=False)
class Slice(Conv):
    def forward(self, x):
        x = F.relu(self.conv(x))
        y = x[:, ::2]
        y.mul_(2)
        return x + 1


@model(S2, "bias", trains=False)
class InputWrittenMeanwhile(Conv):
    def forward(self, x):
        x = x * 1.5
        y = self.conv(x)
        x.add_(1)
        return F.relu(y) + x.mean()


@model(S2, "bias | add(tensor) | relu")
class AddendWrittenLater(Conv):
    """In training the fused call would keep the addend for its gradients: there it ends before."""

    def __init__(self):
        super().__init__()
        self.skip = nn.Conv2d(5, 6, 1)

    def forward(self, x):
        skip = F.interpolate(self.skip(x), scale_factor=2)
        y = F.relu(self.conv(x) + skip)
        skip.mul_(3)
        return y, skip


@model(S2, "bias | relu | mul(-1) | add(1) | add(5) | pow(-1)")
class DividesByIt(Conv):
    def forward(self, x):
        return 1.0 / (1.0 - F.relu(self.conv(x)) + 5)


@model(S2, "bias | relu")
class Unknown(Conv):
    def forward(self, x):
        return torch.erf(F.relu(self.conv(x))) * 2


@model(S2, "bias | add(channel)")
class Broadcasts(Conv):
    def __init__(self):
        super().__init__(out=1)
        self.wide = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x):
        return (self.conv(x) + self.bias) * self.wide
