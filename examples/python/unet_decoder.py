#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decoder of a small 3D U-Net in PyTorch, as it is and through torch.compile(backend="convt"): what convt takes,
how long each takes, and how far the results are apart.

usage: unet_decoder.py [--size 8] [--threads 2] [--inner inductor]"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import convt.torch


class Up(nn.Module):
    """Twice as many voxels along each axis, half the channels, and the encoder's tensor of that size added."""

    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose3d(channels, channels // 2, kernel_size=4, stride=2, padding=1)
        self.norm = nn.InstanceNorm3d(channels // 2, affine=True)

    def forward(self, x, skip):
        return F.leaky_relu(self.norm(self.up(x)), 0.01) + skip


class Decoder(nn.Module):
    def __init__(self, channels=64):
        super().__init__()
        self.levels = nn.ModuleList(Up(channels >> level) for level in range(3))
        self.head = nn.Sequential(nn.ConvTranspose3d(channels >> 3, 4, kernel_size=2, stride=2), nn.Softmax(dim=1))

    def forward(self, x, skips):
        for level, skip in zip(self.levels, skips):
            x = level(x, skip)
        return self.head(x)


def milliseconds(call, seconds=1.0):
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8, help="voxels along each axis of the decoder's input")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inner", default="inductor", help="what compiles the rest of the model: inductor or eager")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)

    model = Decoder().eval()
    x = torch.randn(1, 64, *[options.size] * 3)
    skips = [torch.randn(1, 32 >> level, *[options.size << level + 1] * 3) for level in range(3)]
    with torch.inference_mode():
        explanation = convt.torch.explain(model, x, skips, quiet=True)
        compiled = torch.compile(model, backend="convt", options={"convt.inner": options.inner})
        difference = (compiled(x, skips) - model(x, skips)).abs().max().item()
        before, after = milliseconds(lambda: model(x, skips)), milliseconds(lambda: compiled(x, skips))

    table([("transposed convolution", "in one pass with", "ends at"),
           *((found.where.replace("L['self'].", "") or found.convolution,
              " | ".join(found.ops) if found.taken else "not taken", ": ".join(filter(None, (found.ended_by, found.reason))))
             for found in explanation)])
    print()
    table([("", "time", "speed-up", "largest difference"), ("PyTorch", f"{before:.2f} ms", "", ""),
           ("with convt", f"{after:.2f} ms", f"{before / after:.2f}x", f"{difference:.1e}")])


if __name__ == "__main__":
    main()
