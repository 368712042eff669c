# SPDX-License-Identifier: Apache-2.0
"""The Python that README.md, docs/python.md and examples/ show runs, and does what is said beside it."""

import os
import re
import subprocess
import sys

import pytest

import convt_abi

ROOT = convt_abi.ROOT
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment in which the package is found, and its entry points, as if it were installed."""
    folder = tmp_path_factory.mktemp("installed")
    information = folder / f"convt-{convt_abi.convt.__version__}.dist-info"
    information.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: convt\nVersion: {convt_abi.convt.__version__}\n"
    (information / "METADATA").write_text(metadata, encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    group, name, target = re.search(r'\[project\.entry-points\.(\w+)\]\n(\w+) = "(.*)"', project).groups()
    (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n", encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "python"), str(folder)])
    return {**os.environ, "PYTHONPATH": paths, "CONVT_LIBRARY": str(convt_abi.LIBRARY)}


def python(*arguments, environment):
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page, expected", [
    ("README.md", ["1 of 1 transposed convolutions are taken", "bias | batch_norm(affine) | relu", "(1, 32, 16, 16)"]),
    ("docs/python.md", ["conv_transpose2d", "instance_norm(affine) | leaky_relu(0.01) | add(tensor)"])])
def test_page(page, expected, installed):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(blocks) >= 2
    # What torch.compile made runs too, without waiting for Inductor.
    last = ""
    if page == "docs/python.md":
        last = ('\nwith torch.inference_mode():\n  after = torch.compile(model, backend="convt", options={"convt.inner": "eager"})'
                "\n  assert torch.allclose(after(x, skip), model(x, skip), atol=1e-5)")
    output = python("-c", "\n".join(blocks) + last, environment=installed)
    for text in expected:
        assert text in output


def test_numpy_example(installed):
    output = python(ROOT / "examples/python/numpy_chain.py", environment=installed)
    assert float(re.search(r"largest difference (\S+)", output).group(1)) < 1e-4
    assert len(re.findall(r"\d ms", output)) == 2


def test_decoder_example(installed):
    output = python(ROOT / "examples/python/unet_decoder.py", "--size", "3", "--inner", "eager", environment=installed)
    assert output.count("ConvTranspose3d") == 4
    assert output.count("instance_norm(affine) | leaky_relu(0.01) | add(tensor)") >= 2  # small ones may be left
    assert float(re.search(r"with convt .* (\S+)$", output, re.M).group(1)) < 1e-4
