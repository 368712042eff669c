#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call through convt.torch costs: tiny tensors, for which the call is all there is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import convt  # noqa: E402
import convt.torch  # noqa: E402


def best(functions: list[Callable[[], object]], rounds: int = 60, calls: int = 200) -> list[float]:
    """Microseconds per call: the least of many rounds, in turn."""
    times = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(calls):
                function()
            times[i] = min(times[i], (time.perf_counter() - start) / calls * 1e6)
    return times


def on_cpu() -> None:
    torch.set_num_threads(1)
    x, w, b = torch.randn(1, 2, 3, 3, 3), torch.randn(2, 2, 2, 2, 2), torch.randn(2)
    y = F.conv_transpose3d(x, w, b)
    torch.testing.assert_close(convt.torch.conv_transpose3d(x, w, b), y)
    print("CPU, tensors of 54 elements, microseconds per call, one thread")
    for name, context in (("", torch.enable_grad), ("in torch.no_grad()", torch.no_grad),
                          ("in torch.inference_mode()", torch.inference_mode)):
        with context():
            theirs, ours, bare, ours_bare = best([
                lambda: F.conv_transpose3d(x, w, b), lambda: convt.torch.conv_transpose3d(x, w, b),
                lambda: F.conv_transpose3d(x, w), lambda: convt.torch.conv_transpose3d(x, w)])
        print(f"  {name or 'nothing requires a gradient':30} torch {theirs:6.2f}  convt.torch {ours:6.2f}  "
              f"{ours / theirs:5.2f}x; without bias {bare:6.2f}  {ours_bare:6.2f}  {ours_bare / bare:5.2f}x")


def on_gpu() -> None:
    x, w = torch.randn(1, 8, 4, 4, 4, device="cuda"), torch.randn(8, 8, 2, 2, 2, device="cuda")
    y = convt.torch.conv_transpose3d(x, w)
    precision = convt.torch.float32_precision(x.device)
    plan = convt.Plan(f"conv_transpose3d precision={precision} channels=8->8 input=4 kernel=2", device="cuda:0")
    workspace = torch.empty(max(plan.workspace_size, 1), dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream

    def raw() -> None:
        plan.run_pointers(x.data_ptr(), w.data_ptr(), y.data_ptr(), workspace=workspace.data_ptr(),
                          workspace_size=plan.workspace_size, stream=stream)

    times = []
    for function in (raw, lambda: convt.torch.conv_transpose3d(x, w), lambda: F.conv_transpose3d(x, w)):
        least = float("inf")
        for _ in range(60):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                function()
            least = min(least, (time.perf_counter() - start) / 20 * 1e6)
        times.append(least)
    print("GPU, host time per call, microseconds: "
          f"convt_plan_execute {times[0]:.2f}, convt.torch {times[1]:.2f}, torch {times[2]:.2f}")


if __name__ == "__main__":
    print(f"torch {torch.__version__}, convt {convt.__version__}, "
          f"{'with' if convt.torch.has_extension else 'WITHOUT'} libconvt_torch.so")
    on_cpu()
    if torch.cuda.is_available():
        on_gpu()
