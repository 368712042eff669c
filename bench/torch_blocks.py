#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoder blocks of real models through torch.compile: backend="convt" beside backend="inductor", at inference.

A block is what stands before a transposed convolution, the convolution, its chain, and the concatenation with a skip.
Results are compared first; then calls alternate, and medians are compared. "alone" is PyTorch's convolution with its bias
against convt's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]
os.environ.setdefault("CONVT_LIBRARY", str(ROOT / "build/release/libconvt.so"))
os.environ.setdefault("CONVT_TORCH_LIBRARY", str(ROOT / "build/release/torch_ext/libconvt_torch.so"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import convt.torch  # noqa: E402
from report import geometric_mean, table  # noqa: E402


class Vocoder(nn.Module):
    """HiFi-GAN: leaky_relu, then upsampling."""

    def __init__(self, a, b, kernel, stride):
        super().__init__()
        self.up = nn.ConvTranspose1d(a, b, kernel, stride, padding=(kernel - stride) // 2)

    def forward(self, x):
        return self.up(F.leaky_relu(x, 0.1))


class Snake(Vocoder):
    """BigVGAN: snake, then upsampling."""

    def __init__(self, a, b, kernel, stride):
        super().__init__(a, b, kernel, stride)
        self.alpha = nn.Parameter(torch.rand(1, a, 1) + 0.5)

    def forward(self, x):
        return self.up(x + 1.0 / (self.alpha + 1e-9) * torch.pow(torch.sin(x * self.alpha), 2))


class Up(nn.Module):
    """nnU-Net and U-Net: kernel = stride, then the concatenation."""

    def __init__(self, dims, a, b):
        super().__init__()
        self.up = (nn.ConvTranspose2d if dims == 2 else nn.ConvTranspose3d)(a, b, 2, 2)

    def forward(self, x, skip):
        return torch.cat((self.up(x), skip), 1)


class PreActivated(nn.Module):
    """pix2pix: relu, upsampling, batch norm, the concatenation with the skip in front."""

    def __init__(self, a, b):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b)

    def forward(self, x, skip):
        return torch.cat([skip, self.norm(self.up(F.relu(x)))], 1)


BLOCKS = {
    "hifigan-512-256": (lambda: Vocoder(512, 256, 16, 8), [(1, 512, 64)]),
    "hifigan-256-128": (lambda: Vocoder(256, 128, 16, 8), [(1, 256, 512)]),
    "hifigan-128-64": (lambda: Vocoder(128, 64, 4, 2), [(1, 128, 4096)]),
    "hifigan-64-32": (lambda: Vocoder(64, 32, 4, 2), [(1, 64, 8192)]),
    "bigvgan-256-128": (lambda: Snake(256, 128, 8, 4), [(1, 256, 1024)]),
    "bigvgan-64-32": (lambda: Snake(64, 32, 4, 2), [(1, 64, 16384)]),
    "unet-256-128": (lambda: Up(2, 256, 128), [(2, 256, 64, 64), (2, 128, 128, 128)]),
    "unet-128-64": (lambda: Up(2, 128, 64), [(2, 128, 128, 128), (2, 64, 256, 256)]),
    "nnunet-256-128": (lambda: Up(3, 256, 128), [(1, 256, 12, 12, 12), (1, 128, 24, 24, 24)]),
    "nnunet-64-32": (lambda: Up(3, 64, 32), [(1, 64, 48, 48, 48), (1, 32, 96, 96, 96)]),
    "pix2pix-512-128": (lambda: PreActivated(512, 128), [(1, 512, 32, 32), (1, 128, 64, 64)]),
    "pix2pix-128-64": (lambda: PreActivated(128, 64), [(1, 128, 128, 128), (1, 64, 256, 256)]),
}


def medians(functions, seconds):
    """Of calls in turns."""
    times = [[] for _ in functions]
    for function in functions:
        function()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end or len(times[0]) < 5:
        for own, function in zip(times, functions):
            start = time.perf_counter()
            function()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def alone(up, x):
    """PyTorch's time over convt's for the convolution and its bias."""
    dims = len(up.kernel_size)
    arguments = (x, up.weight, up.bias, up.stride, up.padding)
    theirs = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    ours = (convt.torch.conv_transpose1d, convt.torch.conv_transpose2d, convt.torch.conv_transpose3d)[dims - 1]
    return [lambda: theirs(*arguments), lambda: ours(*arguments)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contender of each block")
    parser.add_argument("--take", default="rule")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, ratios = [], []
    for name, (make, shapes) in BLOCKS.items():
        if options.only not in name:
            continue
        torch._dynamo.reset()
        torch.manual_seed(1)
        module, inputs = make().eval(), [torch.randn(shape) for shape in shapes]
        with torch.no_grad():
            inductor = torch.compile(module)
            own = torch.compile(module, backend=convt.torch.backend, options={"convt.take": options.take})
            want = inductor(*inputs)
            error = float((own(*inputs) - want).abs().max() / want.abs().max())
            found = convt.torch.explain(module, *inputs, options={"convt.take": options.take}, quiet=True).found[0]
            theirs, ours, *convolutions = medians(
                [lambda: inductor(*inputs), lambda: own(*inputs), *alone(module.up, inputs[0])], options.seconds)
        assert error < 1e-5, (name, error)
        ratios.append(theirs / ours)
        rows.append([name, f"{1e3 * theirs:.2f}", f"{1e3 * ours:.2f}", f"{theirs / ours:.2f}",
                     f"{convolutions[0] / convolutions[1]:.2f}", str(found).partition(": ")[2].partition(": ")[2] or str(found)])
        print(*rows[-1], flush=True)
    print(table(["block", "inductor ms", "convt ms", "ratio", "alone", "taken"], rows))
    print(f"geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}; {options.threads} threads")


if __name__ == "__main__":
    main()
