# SPDX-License-Identifier: Apache-2.0
"""The five named problems, as functions of arrays; sizes are read from the arrays' shapes.

    >>> x, w = np.ones((1, 2, 4, 4, 4), np.float32), np.ones((2, 8, 4, 4, 4), np.float32)
    >>> y = convt.problems.conv_transpose3d_layernorm_gelu_scaling(x, w, stride=2, padding=1, scaling_factor=0.5)
    >>> y.shape
    (1, 8, 8, 8, 8)
    >>> convt.problems.conv_transpose3d_layernorm_gelu_scaling.chain
    'layer_norm(channels) | gelu | mul(scaling_factor)'

The functions are made from the library's own table.
"""

from __future__ import annotations

from . import _problem_table

__all__ = []

for _row in _problem_table.rows():
    globals()[_row.name] = _row.function(__name__)
    __all__.append(_row.name)
