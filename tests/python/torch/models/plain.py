# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution and nothing else, with every parameter that it has."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import model


def _plain(name: str, dims: int, space: tuple[int, ...], kernel: Any, **options: Any) -> None:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv_transpose = kind(8, 12, kernel, **{"bias": False, **options})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv_transpose(x)

    Plain.__name__ = name
    chain = "bias" if options.get("bias") else ""
    model((2, 8, *space), chain, dynamic=(0, *range(2, dims + 2)), brief=True)(Plain)


_plain("Plain1d", 1, (17,), 3)
_plain("Plain1dDilated", 1, (19,), 5, dilation=3)
_plain("Plain1dStridedPaddedDilated", 1, (16,), 3, stride=2, padding=1, dilation=2)
_plain("Plain1dGroups", 1, (16,), 4, stride=4, groups=4, bias=True)
_plain("Plain2dSquare", 2, (9, 9), 3)
_plain("Plain2dWideKernel", 2, (9, 9), (3, 7))
_plain("Plain2dWide", 2, (5, 11), 3, bias=True)
_plain("Plain2dWideInputAndKernel", 2, (6, 9), (3, 5), padding=(1, 2))
_plain("Plain2dEverything", 2, (6, 7), (3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=4, bias=True)
_plain("Plain2dLongStride", 2, (5, 6), 3, stride=5, padding=1, dilation=2)
_plain("Plain2dOutputPadding", 2, (5, 6), (4, 3), stride=(2, 3), padding=1, output_padding=(1, 2))
_plain("Plain3dCube", 3, (5, 5, 5), 3)
_plain("Plain3dWideKernel", 3, (4, 4, 4), (3, 5, 7))
_plain("Plain3dWide", 3, (3, 5, 7), 3, bias=True)
_plain("Plain3dEverything", 3, (3, 4, 6), (3, 5, 7), stride=2, padding=(1, 2, 3), output_padding=1, groups=4)
_plain("Plain3dPaddedMuch", 3, (5, 6, 6), 3, stride=2, padding=3, groups=2, bias=True)
_plain("Plain3dDilated", 3, (4, 5, 5), 3, stride=2, padding=1, dilation=2)


@model((2, 8, 5, 6), "bias", brief=True)
class SizeGiven(nn.Module):
    """The output's size is an argument of the call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x, output_size=[10, 12])


@model((8, 5, 6), "bias", dynamic=(1, 2))
class WithoutBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(8, 12, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)
