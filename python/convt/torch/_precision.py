# SPDX-License-Identifier: Apache-2.0
"""How float32 products are computed on a device: PyTorch's switches for convolutions, read when a call runs.

A call that is captured now and runs later says "precision=torch" in its text. Its kernels ask then.
"""

from __future__ import annotations

from typing import Any

import torch

_FOLLOWED = "precision=torch"

# torch.backends.cudnn.conv.fp32_precision, without three layers of Python around it.
_precision_of: Any = getattr(torch._C, "_get_fp32_precision_getter", None)
_is_compiling = torch.compiler.is_dynamo_compiling
_modes = torch._C._len_torch_dispatch_stack


def float32_precision(device: torch.device) -> str:
    """How float32 products may be computed there, by PyTorch's own switches for convolutions: "ieee" or "tf32".

    >>> convt.torch.float32_precision(torch.device("cpu"))
    'ieee'
    """
    if device.type != "cuda":
        return "ieee"
    if _precision_of is not None:
        return "tf32" if _precision_of("cuda", "conv") == "tf32" else "ieee"
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def of_graph(device: torch.device) -> str:
    """The precision of a call in a captured graph."""
    return "torch" if device.type == "cuda" else "ieee"


def of_call(device: torch.device) -> str:
    """The precision of a call that runs now, unless something captures it."""
    if device.type == "cpu":
        return "ieee"
    return of_graph(device) if _is_compiling() or _modes() else float32_precision(device)


def resolved(text: str, device: torch.device) -> str:
    """A call's text as it is to run now."""
    if _FOLLOWED not in text:
        return text
    return text.replace(_FOLLOWED, f"precision={float32_precision(device)}", 1)


def is_tf32(device_index: int) -> bool:
    """What libconvt_torch.so asks where a text says so; an index below 0 is the CPU."""
    device = torch.device("cpu") if device_index < 0 else torch.device("cuda", device_index)
    return float32_precision(device) == "tf32"
