# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="convt"), and enable(), for code that calls plain torch.compile."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule

from ... import _library
from .. import _cat, _op
from .._freeze import contents
from .options import Options, split
from .rewrite import bodies, rewrite
from .rules import machine


def backend(
    graph_module: GraphModule, example_inputs: list[Any], *, mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Fuses transposed convolutions with their chains, and gives the rest to Inductor, with its own mode and options."""
    own, patches = split(options)
    if own.take != "never":
        _rewrite_all(graph_module.graph, own)
        graph_module.recompile()
    if own.inner == "eager":
        return graph_module.forward
    if own.inner == "aot_eager":
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager(graph_module, example_inputs)
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = {**(list_mode_options(mode) if mode else {}), **{key.replace("-", "_"): patches[key] for key in patches}}
    compiled: Any = compile_fx(graph_module, example_inputs, config_patches=patches or None)
    return compiled  # type: ignore[no-any-return]


def _rewrite_all(graph: Graph, options: Options) -> None:
    rewrite(graph, options)
    for body in bodies(graph, graph.owning_module):
        rewrite(body.graph, options)
        body.recompile()
    _pack(graph)


def _pack(graph: Graph) -> None:
    """Packs weights once where Inductor's freezing makes parameters constants of the graph."""
    if not torch._inductor.config.freezing or torch.is_grad_enabled() or graph.owning_module is None:
        return
    for node in graph.nodes:
        if node.target in (_op.conv_transpose, _op.conv_transpose_bare, _cat.conv_transpose_cat) and node.args[1].op == "get_attr":
            value = operator.attrgetter(str(node.args[1].target))(graph.owning_module)
            if isinstance(value, torch.nn.Parameter):
                node.update_arg(5, contents(value))


@functools.cache
def _source_hash() -> str:
    """Of everything that decides what the pass does: its sources, and the library's version."""
    import hashlib

    digest = hashlib.sha256(_library.lib.convt_version())
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.parent.glob("*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


class Pass(CustomGraphPass):
    """The pass, in Inductor's slot for passes over captured graphs, behind what was there before."""

    def __init__(self, before: Any, options: Options) -> None:
        self.before = before
        self.options = options

    def _earlier(self) -> list[Any]:
        if self.before is None:
            return []
        return list(self.before) if isinstance(self.before, (list, tuple)) else [self.before]

    def __call__(self, graph: Graph) -> None:
        for earlier in self._earlier():
            earlier(graph)
        _rewrite_all(graph, self.options)

    def uuid(self) -> Any | None:
        ids = [earlier.uuid() if isinstance(earlier, CustomGraphPass) else None for earlier in self._earlier()]
        return None if None in ids else ("convt", _source_hash(), self.options.take, machine(), *ids)


def enable(*, take: str = "rule") -> None:
    """Fuses transposed convolutions wherever torch.compile is called with Inductor, from now on.

    A pass that is in Inductor's slot already (torch._inductor.config.pre_grad_custom_pass) runs first. Models that were
    compiled before keep what they have.

    >>> convt.torch.enable()
    >>> convt.torch.is_enabled()
    True
    >>> convt.torch.disable()
    """
    disable()
    options, _ = split({"convt.take": take})
    torch._inductor.config.pre_grad_custom_pass = Pass(torch._inductor.config.pre_grad_custom_pass, options)


def disable() -> None:
    """Undoes enable(); what was in Inductor's slot before is put back."""
    current = torch._inductor.config.pre_grad_custom_pass
    if isinstance(current, Pass):
        torch._inductor.config.pre_grad_custom_pass = current.before


def is_enabled() -> bool:
    """Whether enable() is in effect."""
    return isinstance(torch._inductor.config.pre_grad_custom_pass, Pass)
