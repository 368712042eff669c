#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution with a norm, an activation and a skip connection behind it, on NumPy arrays: step by step, and
in one pass. Prints both times and how far the results are apart."""

import time

import numpy as np

import convt


def milliseconds(call):
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def main():
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 32, 12, 24, 24), np.float32)
    weight = random.standard_normal((32, 16, 4, 4, 4), np.float32) / 40
    skip = random.standard_normal((1, 16, 24, 48, 48), np.float32)

    def step_by_step():
        y = convt.conv_transpose3d(x, weight, stride=2, padding=1)
        y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
        return np.maximum(y, 0) + skip

    chain = [convt.ops.layer_norm(channels=True), convt.ops.relu(), convt.ops.add(skip)]

    def one_pass():
        return convt.conv_transpose3d(x, weight, stride=2, padding=1, epilogue=chain)

    difference = abs(one_pass() - step_by_step()).max()
    rows = [("step by step in NumPy", milliseconds(step_by_step)), ("in one pass", milliseconds(one_pass))]
    print(f"result: {one_pass().shape}, largest difference {difference:.1e}")
    for name, taken in rows:
        print(f"{name:24} {taken:8.2f} ms  {rows[0][1] / taken:5.2f}x")


if __name__ == "__main__":
    main()
