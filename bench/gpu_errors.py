#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/errors.svg: the relative Frobenius error of a convolution on this machine's GPU, against float64, as a
function of the products of an output, in every mode, beside PyTorch's.

usage: gpu_errors.py [--library PATH] [--output FILE]"""

import argparse
import math
import os
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANNELS = (8, 16, 32, 64, 128, 256, 512)  # of the input, times 9 taps
MODES = ("ieee", "tf32", "f16", "bf16")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 130, 20, 46
STYLE = """  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 11px; fill: #57606a; } .grid { stroke: #d0d7de; }
  path { fill: none; stroke-width: 2; } .peer { stroke-dasharray: 5 4; }
  .ieee { stroke: #0969da; } .tf32 { stroke: #1a7f37; } .bf16 { stroke: #9a6700; } .f16 { stroke: #8250df; }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .small { fill: #9198a1; } .grid { stroke: #3d444d; } }"""


def measure():
    """{(mode, contender): [(products, error)]}"""
    import torch  # pylint: disable=import-outside-toplevel  # and what loads the library, behind main()'s choice of it

    import ours  # pylint: disable=import-outside-toplevel
    import torch_peers  # pylint: disable=import-outside-toplevel
    from modes import MODES as all_modes, with_mode  # pylint: disable=import-outside-toplevel
    from workload import Workload  # pylint: disable=import-outside-toplevel
    errors = {}
    for mode in MODES:
        torch.backends.cudnn.allow_tf32 = mode == "tf32"
        for channels in CHANNELS:
            text = f"conv_transpose2d batch=8 channels={channels}->64 input=96 kernel=3 padding=1"
            workload = Workload("errors", with_mode(text, mode), gpu=0)
            expected = workload.expected(8)
            for name, contender in (("convt", ours.plan(workload, ours.precision(all_modes[mode][1]))),
                                    ("PyTorch", torch_peers.eager(workload))):
                contender.before()
                result = contender.call().double()
                error = float((result - expected).norm() / expected.norm())
                errors.setdefault((mode, name), []).append((9 * channels, error))
                print(f"{mode:5} {name:8} {9 * channels:5} products: {error:.2e}", flush=True)
            torch.cuda.empty_cache()
    return errors


def draw(errors):
    most_products, least_products = 9 * CHANNELS[-1], 9 * CHANNELS[0]
    low, high = -7.5, -2.0  # exponents of ten

    def x(products):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(products / least_products) / math.log(most_products / least_products)

    def y(error):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(error)) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">',
           "<title>Relative error of a convolution against float64, by products of an output</title>",
           "<style>", STYLE, "</style>"]
    for exponent in range(math.ceil(low), int(high) + 1):
        out += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(10.0**exponent):.1f}" y2="{y(10.0**exponent):.1f}"/>',
                f'<text class="small" text-anchor="end" x="{LEFT - 8}" y="{y(10.0**exponent) + 4:.1f}">1e{exponent}</text>']
    for channels in CHANNELS:
        out.append(f'<text class="small" text-anchor="middle" x="{x(9 * channels):.1f}" y="{HEIGHT - 26}">{9 * channels}</text>')
    out.append(f'<text text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">products of an output</text>')
    for (mode, name), points in errors.items():
        path = " ".join(f"{'M' if i == 0 else 'L'}{x(p):.1f},{y(e):.1f}" for i, (p, e) in enumerate(points))
        out.append(f'<path class="{mode}{"" if name == "convt" else " peer"}" d="{path}"/>')
        if name == "convt":
            out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y(points[-1][1]) + 4:.1f}">{escape(mode)}</text>')
    out += [f'<text class="small" x="{WIDTH - RIGHT + 8}" y="{TOP + 10}">line: convt</text>',
            f'<text class="small" x="{WIDTH - RIGHT + 8}" y="{TOP + 26}">dashes: PyTorch</text>']
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=ROOT / "build/cuda/libconvt.so", help="a CUDA build's libconvt.so")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/errors.svg")
    options = parser.parse_args()
    os.environ["CONVT_LIBRARY"] = str(Path(options.library).resolve())
    options.output.write_text(draw(measure()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
