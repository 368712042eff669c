# SPDX-License-Identifier: Apache-2.0
"""convt: a transposed convolution and everything that follows it, in one pass.

    >>> import numpy as np
    >>> x = np.ones((1, 2, 4, 4), np.float32)
    >>> w = np.ones((2, 3, 3, 3), np.float32)
    >>> y = convt.conv_transpose2d(x, w, stride=2, epilogue=[convt.ops.layer_norm(channels=True), convt.ops.gelu()])
    >>> y.shape
    (1, 3, 9, 9)

The functions take NumPy arrays and whatever else speaks DLPack. `convt.torch` has the same for PyTorch's tensors, its
modules and torch.compile; importing convt imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._library import ConvtError, TensorInfo, get_num_threads, lib, set_num_threads

if TYPE_CHECKING:
    from . import ops as ops
    from . import problems as problems
    from ._functional import conv_transpose1d as conv_transpose1d
    from ._functional import conv_transpose2d as conv_transpose2d
    from ._functional import conv_transpose3d as conv_transpose3d
    from ._plan import Plan as Plan

__version__: str = lib.convt_version().decode()

__all__ = [
    "ConvtError",
    "Plan",
    "TensorInfo",
    "__version__",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "get_num_threads",
    "ops",
    "problems",
    "set_num_threads",
]

# Found on first use: these need NumPy, or PyTorch, whose imports take longer than this package's own.
_MODULES = ("ops", "problems", "torch")
_NAMES = {
    "Plan": "_plan",
    "conv_transpose1d": "_functional",
    "conv_transpose2d": "_functional",
    "conv_transpose3d": "_functional",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
