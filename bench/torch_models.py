#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' models through torch.compile: backend="convt" beside backend="inductor", at inference.

Results are compared first; then calls alternate, and the least times are compared. "Share" is that of the transposed
convolutions, timed alone, in Inductor's time. --grow makes the axes that may change longer, --only names models.
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
from torch.overrides import TorchFunctionMode  # noqa: E402

import convt.torch  # noqa: E402
from models import MODELS  # noqa: E402


def first(value: object) -> torch.Tensor:
    return value[0] if isinstance(value, (tuple, list)) else value  # type: ignore[return-value]


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))


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


class Convolutions(TorchFunctionMode):
    """Keeps the calls of transposed convolutions that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "").startswith("conv_transpose"):
            self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def share(module: torch.nn.Module, inputs: list, seconds: float, whole: float) -> float:
    with Convolutions() as convolutions:
        module(*inputs)
    calls = [lambda call=call: call[0](*call[1], **call[2]) for call in convolutions.calls]
    return sum(times(calls, seconds / 3)) / whole if calls else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--grow", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each of the two and each model")
    parser.add_argument("--take", default="rule", help="which chains are taken: rule, always, measure")
    arguments = parser.parse_args()
    options = {"convt.take": arguments.take}
    torch.set_num_threads(arguments.threads)
    names = [name for name in arguments.only.split(",") if name]
    ratios: list[float] = []
    heavy: list[float] = []
    print(f"torch {torch.__version__}, {arguments.threads} threads; microseconds, least of many")
    for model in MODELS:
        if names and model.name not in names:
            continue
        torch._dynamo.reset()
        module, inputs = model.build(), model.example(arguments.grow)
        with torch.no_grad():
            taken = convt.torch.explain(module, *inputs, options=options, quiet=True)
            inductor = torch.compile(module)
            ours = torch.compile(module, backend=convt.torch.backend, options=options)
            want = first(module(*inputs))
            error = float((first(ours(*inputs)) - want).abs().max()) / max(1.0, float(want.abs().max()))
            assert error < 1e-4, f"{model.name}: {error}"
            a, b = times([lambda: inductor(*inputs), lambda: ours(*inputs)], arguments.seconds)
            part = share(module, inputs, arguments.seconds, a)
        ratios.append(a / b)
        if part >= 0.5:
            heavy.append(a / b)
        count = f"{sum(found.taken for found in taken)} of {len(taken)} taken"
        print(f"{model.name:34} inductor {a * 1e6:9.1f}  convt {b * 1e6:9.1f}  {a / b:5.2f}x  share {part:4.2f}  {count}",
              flush=True)
    print(f"{len(ratios)} models, geometric mean {mean(ratios):.2f}x, least {min(ratios):.2f}x; "
          f"{len(heavy)} with a share of a half or more, geometric mean {mean(heavy):.2f}x")


if __name__ == "__main__":
    main()
