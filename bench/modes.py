# SPDX-License-Identifier: Apache-2.0
"""What a GPU computes in which precision."""

import re

# By name: dtype and precision of the text form.
MODES = {"ieee": ("f32", "ieee"), "tf32": ("f32", "tf32"), "bf16": ("bf16", "ieee"), "f16": ("f16", "ieee")}


def with_mode(text, mode):
    """The case in that mode, whatever it said before."""
    dtype, precision = MODES[mode]
    kind, rest = re.sub(r"\b(dtype|precision)=\w+ ", "", text).split(" ", 1)
    return f"{kind} dtype={dtype} precision={precision} {rest}"
