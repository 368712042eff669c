# SPDX-License-Identifier: Apache-2.0
"""What a captured graph knows of its values: types and sizes, which may be symbolic. Nothing here adds a guard."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

Size = Any  # an int, or a torch.SymInt


def value_of(node: Any) -> Any:
    """The fake value that stands for a node's result: of Dynamo's graphs, or of exported ones."""
    if not isinstance(node, Node):
        return None
    value = node.meta.get("example_value")
    return value if value is not None else node.meta.get("val")


def tensor_of(node: Any) -> torch.Tensor | None:
    """A node's fake tensor; None where it has none."""
    value = value_of(node)
    return value if isinstance(value, torch.Tensor) else None


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(statically_known_true(a == b))


def same_shape(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def hint(size: Size, default: int = 64) -> int:
    """A size as it was when the graph was captured."""
    if isinstance(size, int):
        return size
    node = getattr(size, "node", None)
    if node is not None and getattr(node, "hint", None) is not None:
        return int(node.hint)
    return default


def number(value: Any) -> float | None:
    """A number that the graph has as a constant, also as a tensor without axes: torch.tensor(0.0)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, Node):
        return None
    if value.op == "call_function" and value.target in (torch.tensor, torch.scalar_tensor, torch.as_tensor):
        given = value.args[0] if value.args else value.kwargs.get("data")
        return number(given) if not isinstance(given, Node) else None
    if value.op == "call_method" and value.target in ("new_tensor",):
        given = value.args[1] if len(value.args) > 1 else None
        return number(given) if not isinstance(given, Node) else None
    if value.op == "call_function" and value.target is torch.full and value.args and value.args[0] in ((), []):
        return number(value.args[1]) if len(value.args) > 1 and not isinstance(value.args[1], Node) else None
    return None


def written(value: float) -> str:
    """A number in the text form."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def sizes_text(values: tuple[int, ...]) -> str:
    """Sizes in the text form: one number where all are equal."""
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))
