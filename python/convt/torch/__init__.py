# SPDX-License-Identifier: Apache-2.0
"""convt for PyTorch: functions, modules, and a backend for torch.compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _cat as _cat  # defines its operator
from ._functional import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ._op import clear_plans, extension, plan_count, set_plan_limit
from ._precision import float32_precision

if TYPE_CHECKING:
    from . import nn as nn
    from .compile.backend import backend as backend
    from .compile.backend import disable as disable
    from .compile.backend import enable as enable
    from .compile.backend import is_enabled as is_enabled
    from .compile.explain import explain as explain
    from ._optimize import optimize as optimize

__all__ = [
    "backend",
    "clear_plans",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "disable",
    "enable",
    "explain",
    "float32_precision",
    "is_enabled",
    "nn",
    "optimize",
    "plan_count",
    "set_plan_limit",
]

#: Whether calls go through libconvt_torch.so, which makes them cheap.
has_extension: bool = extension is not None

# Found on first use: Inductor takes a while to import.
_NAMES = {
    "disable": "compile.backend", "enable": "compile.backend", "is_enabled": "compile.backend",
    "explain": "compile.explain", "optimize": "_optimize", "backend": "compile.backend",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "nn":
        return importlib.import_module(f"{__name__}.nn")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
