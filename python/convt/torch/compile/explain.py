# SPDX-License-Identifier: Apache-2.0
"""explain(): which transposed convolutions of a model are fused with what, and why not with more."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from .options import split
from .rewrite import Found, bodies, left_inside, rewrite


@dataclasses.dataclass
class Explanation:
    """What convt makes of a model: one entry per transposed convolution, in their order in the captured graphs."""

    found: list[Found]
    graphs: int  #: how many graphs Dynamo captured; more than one means that the model breaks them

    def __iter__(self) -> Iterator[Found]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __str__(self) -> str:
        taken = sum(found.taken for found in self.found)
        head = f"{taken} of {len(self.found)} transposed convolutions are taken, in {self.graphs} graph"
        return "\n".join([head + "s"[: self.graphs != 1], *(f"  {found}" for found in self.found)])


def explain(
    model: Callable[..., Any], *inputs: Any, options: dict[str, Any] | None = None, quiet: bool = False, **keywords: Any
) -> Explanation:
    """Prints which chains of a model are taken, what ends each and why, and returns that as data.

    The model runs once, with these inputs; it is captured as torch.compile(backend="convt", options=options) would.

    >>> model = torch.nn.Sequential(torch.nn.ConvTranspose2d(64, 32, 4, 2, 1), torch.nn.ReLU())
    >>> with torch.no_grad():
    ...     (found,) = convt.torch.explain(model, torch.ones(2, 64, 32, 32), quiet=True)
    >>> found.taken, found.ops
    (True, ('bias', 'relu'))
    """
    own, _ = split(options)
    result = Explanation([], 0)

    def record(graph_module: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        result.graphs += 1
        for inside in (graph_module, *bodies(graph_module.graph, graph_module)):
            result.found += rewrite(copy.deepcopy(inside.graph), own)
        result.found += left_inside(graph_module.graph, graph_module)
        return graph_module.forward

    # A backend of its own is compiled anew, beside what was compiled before.
    with torch._dynamo.config.patch(recompile_limit=1 << 20, accumulated_recompile_limit=1 << 20):
        torch.compile(model, backend=record)(*inputs, **keywords)
    if not quiet:
        print(result)
    return result
