# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="convt")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule

from .rewrite import rewrite


def convt_backend(
    graph_module: GraphModule, example_inputs: list[Any], *, mode: str | None = None,
    options: dict[str, Any] | None = None, inner: str | Callable[..., Any] = "inductor",
) -> Callable[..., Any]:
    """Fuses transposed convolutions with their chains, and gives the rest to Inductor."""
    rewrite(graph_module.graph)
    graph_module.recompile()
    if callable(inner):
        return inner(graph_module, example_inputs)
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph_module, example_inputs)
