# SPDX-License-Identifier: Apache-2.0
"""What people write by hand with the running value used more than once, and which the vocabulary has as one op."""

from __future__ import annotations

from .handmade_norms import handmade_norm
from .regions import region
from .snakes import snake
from .steps import Running, Step


def diamond(running: Running) -> Step | None:
    """The step of an activation, a norm or a snake that is written so; None where there is none."""
    return region(running) or handmade_norm(running) or snake(running)
