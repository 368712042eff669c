# SPDX-License-Identifier: Apache-2.0
"""What convt sets out to reach on a CPU, with two threads, in float32."""

from dataclasses import dataclass


@dataclass
class Bar:
    batch: int  # the benchmark's own batch would take a CPU too long
    sgemm: float  # fraction of sgemm's rate, counting the products that some output needs
    peer: float  # times faster than the best peer, in whatever layout it likes best
    channels_first_peer: float = 0  # times faster than the best peer that is given channels-first tensors


PROBLEMS = {
    "conv-transpose-3d-asym-input-sq-kernel": Bar(batch=1, sgemm=0.75, peer=1.3),
    "conv-transpose-2d-square-input-asym-kernel": Bar(batch=1, sgemm=0.80, peer=1.0, channels_first_peer=1.2),
    "conv-transpose3d-max-max-sum": Bar(batch=1, sgemm=0.75, peer=2.0),
    "conv-transpose3d-layernorm-gelu-scaling": Bar(batch=2, sgemm=0.70, peer=2.5),
    "conv-transpose3d-sum-layernorm-avgpool-gelu": Bar(batch=2, sgemm=0.60, peer=5.0),
}
SCALING = 1.85  # two threads against one, on each problem

SHAPES_MEAN = 1.5  # geometric mean over the shapes of the ratio to the best peer
SHAPES_LEAST = 0.8  # the same ratio for any one of them
