#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/speed.svg from the figures that docs/performance.md records: how many times longer the best of PyTorch's
modes, and ONNX Runtime on a CPU, take for the five problems than convt does.

usage: chart.py [--check]    with --check, fails where the picture is not that of the figures"""

import math
import re
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
CAPTIONS = {
    "conv-transpose-2d-square-input-asym-kernel": "2D convolution, kernel 3x7",
    "conv-transpose-3d-asym-input-sq-kernel": "3D convolution, kernel 3",
    "conv-transpose3d-max-max-sum": "3D, bias, max pools, sum",
    "conv-transpose3d-layernorm-gelu-scaling": "3D, LayerNorm, GELU, scale",
    "conv-transpose3d-sum-layernorm-avgpool-gelu": "3D, add, LayerNorm, pool, GELU"}
# Name, class of the bar, the table's heading, what the rows hold in the column `mode`, the column.
SERIES = [("2 CPU cores, float32", "cpu", "## The five problems", None, "against best peer"),
          ("H200, TF32", "tf32", "## The five problems on a GPU", "tf32", "against best"),
          ("H200, bfloat16", "bf16", "## The five problems on a GPU", "bf16", "against best")]
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 232, 60, 11, 12, 52
STYLE = """  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 11px; fill: #57606a; }
  .grid { stroke: #d0d7de; } .one { stroke: #57606a; }
  .cpu { fill: #0969da; } .tf32 { fill: #1a7f37; } .bf16 { fill: #9a6700; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9198a1; }
    .grid { stroke: #3d444d; } .one { stroke: #9198a1; }
    .cpu { fill: #4493f8; } .tf32 { fill: #3fb950; } .bf16 { fill: #d29922; }
  }"""


def read_table(page, heading):
    """The rows of the first table behind the heading, as dictionaries."""
    section = page.split(f"\n{heading}\n", 1)[1]
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in re.search(r"(?:^\|.*\n)+", section, re.M).group().splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[2:]]


def ratios(page, heading, mode, column):
    """By problem."""
    rows = [row for row in read_table(page, heading) if mode is None or row["mode"] == mode]
    return {row["problem"]: float(re.match(r"([\d.]+)x", row[column]).group(1)) for row in rows}


def draw(page):
    series = [(name, kind, ratios(page, *where)) for name, kind, *where in SERIES]
    most = max(max(values.values()) for _, _, values in series)
    height = TOP + len(CAPTIONS) * (len(series) * BAR + GAP) + 30

    def x(ratio):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / 0.9) / math.log(most / 0.9)

    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= most]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
           "<title>Time of the best PyTorch mode divided by convt's, for five problems</title>", "<style>", STYLE, "</style>"]
    for tick in ticks:
        out += [f'<line class="{"one" if tick == 1 else "grid"}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 8}" '
                f'y2="{height - 26}"/>',
                f'<text class="small" text-anchor="middle" x="{x(tick):.1f}" y="{height - 12}">{tick}x</text>']
    for i, (name, kind, _) in enumerate(series):
        out += [f'<rect class="{kind}" x="{LEFT + 175 * i}" y="12" width="11" height="11"/>',
                f'<text x="{LEFT + 175 * i + 17}" y="22">{escape(name)}</text>']
    y = TOP
    for problem, caption in CAPTIONS.items():
        out.append(f'<text text-anchor="end" x="{LEFT - 10}" y="{y + len(series) * BAR / 2 + 4:.0f}">{escape(caption)}</text>')
        for _, kind, values in series:
            end = x(values[problem])
            out += [f'<rect class="{kind}" x="{x(1):.1f}" y="{y}" width="{end - x(1):.1f}" height="{BAR - 2}"/>',
                    f'<text class="small" x="{end + 5:.1f}" y="{y + BAR - 2}">{values[problem]:g}x</text>']
            y += BAR
        y += GAP
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    picture, text = DOCS / "speed.svg", draw((DOCS / "performance.md").read_text(encoding="utf-8"))
    if "--check" in sys.argv:
        if picture.read_text(encoding="utf-8") != text:
            sys.exit("docs/speed.svg is not what docs/performance.md says: run bench/chart.py")
    else:
        picture.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
