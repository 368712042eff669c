# SPDX-License-Identifier: Apache-2.0
"""The examples of convt.torch's docstrings run as they are shown."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import torch

import convt
import convt.torch

PACKAGE = Path(convt.torch.__file__).parent
MODULES = sorted(
    ".".join(("convt.torch", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py"))
# Where functions and classes for users are.
WITH_EXAMPLES = {
    "convt.torch._functional", "convt.torch._op", "convt.torch._optimize", "convt.torch._precision",
    "convt.torch.compile.backend", "convt.torch.compile.explain", "convt.torch.nn"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"torch": torch, "convt": convt})
    assert result.failed == 0
    assert (result.attempted > 0) == (name in WITH_EXAMPLES)
