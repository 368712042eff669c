#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' models through torch.compile: backend="convt" beside backend="inductor", at inference.

Results are compared first; then calls alternate, and the least times are compared. --grow makes the axes that may change
longer, --only names models.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/python/torch")]
os.environ.setdefault("CONVT_LIBRARY", str(ROOT / "build/release/libconvt.so"))

import torch  # noqa: E402

import convt.torch  # noqa: E402
from models import MODELS  # noqa: E402


def first(value: object) -> torch.Tensor:
    return value[0] if isinstance(value, (tuple, list)) else value  # type: ignore[return-value]


def times(functions: list, seconds: float) -> list[float]:
    best = [math.inf] * len(functions)
    for function in functions:
        function()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--grow", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each of the two and each model")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    names = [name for name in arguments.only.split(",") if name]
    ratios = []
    print(f"torch {torch.__version__}, {arguments.threads} threads; microseconds, least of many")
    for model in MODELS:
        if names and model.name not in names:
            continue
        torch._dynamo.reset()
        module, inputs = model.build(), model.example(arguments.grow)
        with torch.no_grad():
            taken = convt.torch.explain(module, *inputs, quiet=True)
            inductor, ours = torch.compile(module), torch.compile(module, backend=convt.torch.backend)
            want = first(module(*inputs))
            error = float((first(ours(*inputs)) - want).abs().max()) / max(1.0, float(want.abs().max()))
            assert error < 1e-4, f"{model.name}: {error}"
            a, b = times([lambda: inductor(*inputs), lambda: ours(*inputs)], arguments.seconds)
        ratios.append(a / b)
        count = f"{sum(found.taken for found in taken)} of {len(taken)} taken"
        print(f"{model.name:34} inductor {a * 1e6:9.1f}  convt {b * 1e6:9.1f}  {a / b:5.2f}x  {count}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} models, geometric mean {mean:.2f}x, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
