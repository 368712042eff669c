# SPDX-License-Identifier: Apache-2.0
"""What the library says of its ops."""

from __future__ import annotations

import functools

from ... import _library
from ..._plan import Plan
from .. import _chain


@functools.lru_cache(maxsize=1024)
def is_pointwise(op: str) -> bool:
    """Whether an op sees one element and numbers of its channel: the library takes it before a convolution."""
    try:
        Plan(_chain.problem(f"{op} | {_chain.HEAD}", 1, "channels=1->1 input=1 kernel=1"))
    except _library.ConvtError:
        return False
    return True
