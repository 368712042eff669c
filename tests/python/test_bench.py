# SPDX-License-Identifier: Apache-2.0
"""The benchmark's cases and its bars."""

import sys

import numpy as np

import convt_abi
import oracle

sys.path.insert(0, str(convt_abi.ROOT / "bench"))

import bars  # noqa: E402
import workload  # noqa: E402


def test_shapes_are_cases():
    shapes = workload.read_shapes()
    assert shapes
    for text in shapes.values():
        plan = convt_abi.Plan(text)
        assert plan.input.dtype == "f32"
        assert oracle.parse(plan.text) == oracle.parse(text)


def test_each_problem_has_a_bar():
    assert set(bars.PROBLEMS) == {row["slug"] for row in convt_abi.named_problems()}
    for row in convt_abi.named_problems():
        text = workload.with_batch(row["benchmark_case"], bars.PROBLEMS[row["slug"]].batch)
        assert oracle.parse(text).batch == bars.PROBLEMS[row["slug"]].batch


def test_model_is_what_the_case_says():
    """On data of its own, the benchmark's PyTorch model computes what convt does."""
    for row in convt_abi.named_problems():
        case = workload.Workload(row["slug"], row["demo_case"])
        expected = case.expected().numpy()
        output = np.full(expected.shape, np.nan, np.float32)
        case.plan.execute(case.input.numpy(), case.kernel.numpy(), [tensor.numpy() for tensor in case.operands], output)
        assert abs(output - expected).max() <= 1e-5 * abs(expected).max(), row["slug"]
