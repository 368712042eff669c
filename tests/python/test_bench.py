# SPDX-License-Identifier: Apache-2.0
"""The benchmark's cases and its bars."""

import os
import subprocess
import sys

import numpy as np
import pytest

import convt_abi
import oracle

sys.path.insert(0, str(convt_abi.ROOT / "bench"))

import bars  # noqa: E402
import gpu_chains  # noqa: E402
import gpu_machine  # noqa: E402
import gpu_report  # noqa: E402
import ours  # noqa: E402
import report  # noqa: E402
import timing  # noqa: E402
import torch_peers  # noqa: E402
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
    small = "conv_transpose2d dtype=f32 batch=2 channels=6->16 input=5x7 kernel=3 stride=2 | "
    cases = {row["slug"]: row["demo_case"] for row in convt_abi.named_problems()}
    cases.update((chain, small + chain) for _, chain in gpu_chains.read_chains())
    cases["kept"] = small + "bias | keep(x) | mean(axes=hw) | sigmoid | mul(x) | softmax(axes=chw)"
    for name, text in cases.items():
        case = workload.Workload(name, text)
        expected = case.expected().numpy()
        output = np.full(expected.shape, np.nan, np.float32)
        case.plan.execute(case.input.numpy(), case.kernel.numpy(), [tensor.numpy() for tensor in case.operands], output)
        assert abs(output - expected).max() <= 1e-5 * abs(expected).max(), name


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
    assert round(1e3 * gpu_machine.floor(4e11, 1e9, "ieee", ceilings).seconds, 3) == 1.5
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


@pytest.mark.parametrize("text", [
    "conv_transpose2d layout=channels_last batch=2 channels=3->4 input=5x6 kernel=3 stride=2 | add(tensor) | relu",
    "conv_transpose2d layout=channels_first->channels_last batch=2 channels=3->4 input=5x6 kernel=3 | bias",
    "conv_transpose3d layout=channels_last->channels_first channels=3->4 input=3x4x5 kernel=2 stride=2 | instance_norm",
    "conv_transpose1d layout=channels_last channels=3->4 input=7 kernel=4 stride=2 | layer_norm(channels, affine)",
    "conv_transpose2d dtype=bf16 batch=2 channels=16->8 input=9 kernel=3 stride=2 padding=1 | bias | gelu",
    "conv_transpose2d dtype=f16 layout=channels_last channels=16->8 input=9 kernel=3 | batch_norm(affine) | silu",
    "conv_transpose1d dtype=f64 channels=4->4 input=9 kernel=3 | mul(channel) | tanh"])
def test_every_dtype_and_layout_is_judged_rightly(text):
    """What computes the case is let through; what does not is found out."""
    case = workload.Workload("case", text)
    expected, tolerance = case.expected(), timing.TOLERANCE[case.plan.input.dtype]
    convt = ours.plan(case, ours.threads(2))
    # In 16 bits oneDNN may choose instructions that a virtual machine announces and does not have.
    peers = [torch_peers.eager(case)] if case.plan.input.dtype in ("f32", "f64") else []
    for contender in (convt, *peers):
        timing.verify(contender, expected, tolerance)
        assert contender.failure is None, (contender.name, contender.failure)
    wrong = timing.Contender("wrong", lambda: 1.1 * convt.call())
    timing.verify(wrong, expected, tolerance)
    assert "wrong result" in wrong.failure


def shapes_of(folder, text):
    path = folder / "shapes.txt"
    path.write_text(text, encoding="utf-8")
    return workload.read_shapes(path)


def test_shapes_file_is_read_kindly(tmp_path):
    case = "conv_transpose1d channels=1->1 input=3 kernel=2"
    assert shapes_of(tmp_path, f"# comment\n\na\t{case}\n  \nb {case}\n  # c\n") == {"a": case, "b": case}
    for text, message in ((f"a\t{case}\nalone\n", "shapes.txt:2: a line is a name"),
                          (f"a\t{case}\n\na\t{case}\n", "shapes.txt:3: there are two shapes named a"),
                          ("a\tconv_transpose1d chanels=1", "shapes.txt:1: .*chanels")):
        with pytest.raises(SystemExit, match=message):
            shapes_of(tmp_path, text)


def test_help_needs_no_peer(tmp_path):
    for name in ("onnxruntime", "onnx"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    result = subprocess.run([sys.executable, convt_abi.ROOT / "bench/cpu.py", "--help"], capture_output=True, text=True,
                            check=False, env=os.environ | {"PYTHONPATH": path})
    assert result.returncode == 0 and "--threads" in result.stdout, result.stderr


def test_disturbed_times_are_marked():
    def entry(name, noisy):
        rows = [{"name": who, "peer": who != "convt", "median_ms": 2.0, "min_ms": 1.0, "error": 1e-7, "failure": None,
                 "gflops": 1.0, "slower_than_convt": 1.0, "noisy": noisy} for who in ("convt", "PyTorch")]
        return {"name": name, "ratio": 1.25, "ratio_of_minima": 1.75, "noisy": noisy, "gflops": 1.0, "contenders": rows}
    text = report.render({"machine": {}, "problems": [], "shapes": [entry("quiet", False), entry("loud", True)]})
    (quiet,) = [line for line in text.splitlines() if line.startswith("| quiet")]
    (loud,) = [line for line in text.splitlines() if line.startswith("| loud")]
    assert "1.25x ~" in loud and "~" not in quiet
    assert "Ratios of minima: loud 1.75x." in text
    steady, disturbed = (timing.Contender("one", None, samples=samples) for samples in ([1.0, 1.1, 1.2], [1.0, 1.6, 1.7]))
    assert disturbed.noisy and not steady.noisy
