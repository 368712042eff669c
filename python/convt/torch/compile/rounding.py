# SPDX-License-Identifier: Apache-2.0
"""Values that are float32 for a while in a model of 16-bit floats: by autocast, by parameters in float32, by casts.

A chain computes in float32 anyway, and rounds its result to the call's type. So it may end at a float32 value if all that
the graph does with that value is to round it.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from .names import name_of
from .values import tensor_of

# Operations that autocast runs in 16 bits: whatever they take is rounded first.
_ROUNDING = frozenset("""
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution linear matmul bmm addmm baddbmm
""".split())
_CASTS = ("to", "bfloat16", "half", "type_as")


def _rounds(user: Node, dtype: torch.dtype) -> bool:
    """Whether an operation rounds a float32 argument to this type before it does anything with it."""
    result = tensor_of(user)
    return result is not None and result.dtype == dtype and name_of(user) in (*_ROUNDING, *_CASTS)


def is_rounded_at_once(node: Node, dtype: torch.dtype) -> bool:
    """Whether each use of a value rounds it: in its place the rounded one may stand."""
    return bool(node.users) and all(_rounds(user, dtype) for user in node.users)


def is_rounded(node: Node, dtype: torch.dtype) -> bool:
    """Whether each use of a value rounds it, if only behind a concatenation."""
    return bool(node.users) and all(
        _rounds(user, dtype) or (name_of(user) in ("cat", "concat", "concatenate") and is_rounded_at_once(user, dtype))
        for user in node.users)
