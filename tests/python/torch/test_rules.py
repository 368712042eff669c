# SPDX-License-Identifier: Apache-2.0
"""The rule of torch.compile on GPUs, on plans whose predictions are given."""

from __future__ import annotations

import dataclasses
import types

import pytest
import torch

from convt.torch.compile import rules


@dataclasses.dataclass
class Planned:
    """What the rule asks of a plan."""

    seconds: float
    engine: str = "cuda-sm90"
    macs: float = 2**21 * 64 * 64 * 9 / 4  # of LAYER, with nothing at the borders
    operands: tuple[types.SimpleNamespace, ...] = (types.SimpleNamespace(bytes=256),)
    output: types.SimpleNamespace = dataclasses.field(default_factory=lambda: types.SimpleNamespace(bytes=2**28))

    def predicted_seconds(self) -> float:
        return self.seconds

    def products(self) -> tuple[float, float]:
        return self.macs, self.macs


LAYER = rules.Layer(
    (32, 64, 128, 128), (64, 64, 3, 3), "stride=2 padding=1 output_padding=1 | bias | tanh", torch.bfloat16,
    torch.device("cuda"), "channels_first", "channels_first")


def test_a_chain_is_taken_where_it_is_predicted_to_win():
    # 0.19 ms for the products, and 0.13 for reading and writing 268 MB again.
    assert rules._on_gpu(LAYER, Planned(200e-6)).take
    left = rules._on_gpu(LAYER, Planned(2e-3))
    assert not left.take and "predicted: 2000 us" in left.reason


def test_passes_of_norms_and_pools_count():
    normed = dataclasses.replace(LAYER, text=LAYER.text + " | softmax | instance_norm")
    theirs = [rules._seconds_by_inductor(layer, Planned(0)) for layer in (LAYER, normed)]
    assert theirs[1] - theirs[0] == pytest.approx(2**28 / 4.2e12, rel=1e-6)


def test_float32_in_full_takes_pytorch_longer():
    text = LAYER.text
    precise, rounded = (
        rules._seconds_by_inductor(dataclasses.replace(LAYER, text=of, dtype=torch.float32), Planned(0))
        for of in (text, "precision=tf32 " + text))
    assert precise > 2 * rounded


@pytest.mark.parametrize("change, reason", [
    ({"input": (32, 512, 128, 128), "weight": (512, 64, 3, 3)}, "channels, kernel, stride or groups"),
    ({"weight": (64, 64, 16, 16)}, "channels, kernel, stride or groups"),
    ({"text": "stride=8 | bias"}, "channels, kernel, stride or groups"),
    ({"input": (1, 64, 16, 16)}, "too small"),
])
def test_layers_that_are_left(change, reason):
    left = rules._on_gpu(dataclasses.replace(LAYER, **change), Planned(1e-6))
    assert not left.take and reason in left.reason


def test_other_engines_are_left():
    assert "cuda-generic" in rules._on_gpu(LAYER, Planned(1e-6, engine="cuda-generic")).reason
