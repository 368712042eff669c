# SPDX-License-Identifier: Apache-2.0
"""What a user writes; mypy --strict takes it (test_package.py)."""

import numpy as np

import convt

x = np.ones((1, 2, 4, 4), np.float32)
w = np.ones((2, 3, 3, 3), np.float32)
chain = [convt.ops.layer_norm(channels=True, eps=1e-3), convt.ops.gelu(tanh=True), convt.ops.max_pool((1, 2), stride=2)]
y = convt.conv_transpose2d(x, w, stride=2, padding=(1, 0), epilogue=chain, precision="tf32")
y = convt.conv_transpose2d(x, w, prologue=[convt.ops.leaky_relu(0.1), "mul(2)"], epilogue="relu", out=y[:, 1:])
plan = convt.Plan("conv_transpose1d channels=1->1 input=3 kernel=2 | bias", engine="reference")
shape: tuple[int, ...] = plan.output.shape
strides: tuple[int, ...] = plan.output.strides
names: list[str] = [operand.name for operand in plan.operands]
plan.pack(w)
z = plan.run(x, operands=[np.ones(1, np.float32)], out=None)
case: str = convt.problems.conv_transpose3d_max_max_sum.benchmark_case
v = convt.problems.conv_transpose3d_layernorm_gelu_scaling(x, w, stride=2, scaling_factor=0.5)
try:
    convt.set_num_threads(2)
except convt.ConvtError as error:
    status: str = error.status
