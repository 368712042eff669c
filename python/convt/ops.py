# SPDX-License-Identifier: Apache-2.0
"""The operations that may follow a convolution, as functions that make them; `convt ops` lists the same ones.

    >>> print(convt.ops.layer_norm(channels=True, eps=1e-3), convt.ops.max_pool((1, 2, 2)), sep=" | ")
    layer_norm(channels, eps=0.001) | max_pool(1x2x2)

Tensors that an operation takes go along with it. A norm that is given a weight and a bias is affine, and what add, sub,
mul and div are given is a number, one value per channel (an array of shape (C,), (C, 1, 1) or (1, C, 1, 1), say), or a
whole tensor (an array of any other shape):

    >>> convt.ops.add(np.zeros((1, 8, 4, 4), np.float32))
    convt.ops: add(tensor), with 1 operand

The functions are made from the library's own table.
"""

from __future__ import annotations

from . import _op_table
from ._op import Op

__all__ = ["Op"]

for _row in _op_table.rows():
    globals()[_row.name] = _row.function(__name__)
    __all__.append(_row.name)
