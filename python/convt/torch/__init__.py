# SPDX-License-Identifier: Apache-2.0
"""convt for PyTorch: functions, modules, and a backend for torch.compile."""

from __future__ import annotations

from ._functional import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ._op import clear_plans, extension, plan_count, set_plan_limit

__all__ = [
    "clear_plans",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "plan_count",
    "set_plan_limit",
]

#: Whether calls go through libconvt_torch.so, which makes them cheap.
has_extension: bool = extension is not None
