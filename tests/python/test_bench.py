# SPDX-License-Identifier: Apache-2.0
"""The benchmark's cases and its bars."""

import sys

import numpy as np

import convt_abi
import oracle

sys.path.insert(0, str(convt_abi.ROOT / "bench"))

import bars  # noqa: E402
import gpu_machine  # noqa: E402
import gpu_report  # noqa: E402
import report  # noqa: E402
import workload  # noqa: E402
from modes import MODES, with_mode  # noqa: E402


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


def test_modes_are_cases():
    for text in [*workload.read_shapes().values(), *(row["benchmark_case"] for row in convt_abi.named_problems())]:
        for mode, (dtype, precision) in MODES.items():
            plan = convt_abi.Plan(with_mode(with_mode(text, "tf32"), mode))
            assert plan.input.dtype == dtype
            assert ("precision=tf32" in plan.text) == (precision == "tf32")
            assert oracle.parse(plan.text).axes == oracle.parse(text).axes


def test_model_in_sixteen_bits():
    """The float64 result of the first image is that of inputs already rounded."""
    row = convt_abi.named_problems()[0]
    case = workload.Workload(row["slug"], with_mode(workload.with_batch(row["demo_case"], 3), "bf16"))
    expected = case.expected(1)
    assert expected.shape[0] == 1
    assert abs(case.model()(case.input)[:1].double() - expected).max() <= 2e-2 * abs(expected).max()


def test_floors():
    ceilings = {"copy": 4e12, "ieee": 5e13, "tf32": 4e14, "bf16": 8e14, "f16": 8e14}
    floor = gpu_machine.floor(4e11, 1e9, "tf32", ceilings)
    assert (round(1e3 * floor.seconds, 3), floor.binds) == (1.0, "products")
    assert round(1e3 * gpu_machine.floor(4e11, 1e9, "ieee", ceilings).seconds, 3) == 3.0
    floor = gpu_machine.floor(4e9, 8e9, "bf16", ceilings)
    assert (round(1e3 * floor.seconds, 3), floor.binds) == (2.0, "memory")


def contender(name, median, error=1e-3, failure=None):
    return {"name": name, "peer": name != "convt", "median_ms": median, "error": error, "failure": failure,
            "host_us": None if median is None else 12.0, "slower_than_convt": None if median is None else median / 2}


def test_gpu_report():
    entry = {"name": "one", "mode": "tf32", "floor_ms": 1.0, "floor_by": "products", "of_floor": 2.0, "ratio": 3.0,
             "contenders": [contender("convt", 2.0), contender("PyTorch", 6.0),
                            contender("cudnn.benchmark", None, None, "out of memory")]}
    text = gpu_report.render({"machine": {"GPU": "some"}, "problems": [entry], "shapes": [entry | {"mode": "f16"}]})
    for part in ("- GPU: some", "on a GPU, f16", "| one ", "3.00x", "2.00", "out of memory", "1.0e-03"):
        assert part in text, part
    assert "torch.compile" not in text


def test_sections_are_recorded_apart(tmp_path):
    document = tmp_path / "performance.md"
    document.write_text(report.DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    report.record("first text", "measured", document)
    before = document.read_text(encoding="utf-8")
    report.record("second text", "measured on a GPU", document)
    after = document.read_text(encoding="utf-8")
    assert "first text" in after and "second text" in after
    assert before.split("<!-- measured on a GPU: begin -->")[0] == after.split("<!-- measured on a GPU: begin -->")[0]
