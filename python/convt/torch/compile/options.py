# SPDX-License-Identifier: Apache-2.0
"""Options of torch.compile that are convt's own; all others are Inductor's."""

from __future__ import annotations

import dataclasses
from typing import Any

from ... import _library

TAKES = ("rule", "always", "never", "measure")


@dataclasses.dataclass(frozen=True)
class Options:
    """What convt does with a captured graph."""

    #: Which chains are taken: "rule", those that recorded measurements say are at least as fast as Inductor's; "always",
    #: every one; "never", none; "measure", those that are at least as fast as PyTorch's own operations on this machine.
    take: str = "rule"
    #: What compiles the rest: "inductor", "aot_eager", or "eager", which compiles nothing.
    inner: str = "inductor"


def split(options: dict[str, Any] | None) -> tuple[Options, dict[str, Any]]:
    """Takes convt's options ("convt.take", "convt.inner") from those given."""
    rest = dict(options or {})
    own = {name.removeprefix("convt."): rest.pop(name) for name in list(rest) if name.startswith("convt.")}
    unknown = set(own) - {field.name for field in dataclasses.fields(Options)}
    if unknown:
        raise _library.ConvtError(f"options: convt has none named {', '.join(sorted(unknown))}")
    result = Options(**own)
    if result.take not in TAKES:
        raise _library.ConvtError(f"options: convt.take is one of {', '.join(TAKES)} (got {result.take})")
    if result.inner not in ("inductor", "aot_eager", "eager"):
        raise _library.ConvtError(f"options: convt.inner is inductor, aot_eager or eager (got {result.inner})")
    return result, rest
