# SPDX-License-Identifier: Apache-2.0
"""Whether a chain is taken."""

from __future__ import annotations

import dataclasses

from .options import Options
from .walker import Chain, Convolution


@dataclasses.dataclass(frozen=True)
class Decision:
    take: bool
    reason: str = ""


def decide(convolution: Convolution, chain: Chain, options: Options) -> Decision:
    return Decision(True)
