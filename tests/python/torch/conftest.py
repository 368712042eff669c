# SPDX-License-Identifier: Apache-2.0
"""What every test of convt.torch needs: a CPU on which PyTorch's own operations run, and the backend's name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Some virtual machines say that they have AMX and then refuse it: oneDNN's bfloat16 convolutions end the process.
_PROBE = "import torch; a = torch.ones(64, 64).bfloat16(); a @ a"
if "ONEDNN_MAX_CPU_ISA" not in os.environ and subprocess.run([sys.executable, "-c", _PROBE]).returncode < 0:
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"

import torch  # noqa: E402
from torch._dynamo import list_backends, register_backend  # noqa: E402

import convt.torch  # noqa: E402

if "convt" not in list_backends():  # the package's entry point says so where it is installed
    register_backend(convt.torch.backend, name="convt")


# Tiny tensors gain nothing from threads, and tests of several programs at once lose much by OpenMP's waiting.
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also what make test-python-full alone runs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    left = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs with make test-python-full only")
    config.addinivalue_line("markers", "gpu: needs a GPU")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
