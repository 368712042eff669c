# SPDX-License-Identifier: Apache-2.0
"""The text of a call: the convolution's fields and the chain, without sizes, as in "stride=2 groups=4 | bias | gelu".

Behind a prologue the fields begin with a word: "leaky_relu(0.1) | conv_transpose stride=8 | bias".
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

from .. import _library

_POOLS = ("max_pool", "min_pool", "avg_pool", "sum_pool")
_REDUCTIONS = ("sum", "mean", "max", "min", "logsumexp")
_TERMS = ("channel", "tensor", "conv")
HEAD = "conv_transpose"  # the word before a convolution's fields


@dataclasses.dataclass(frozen=True)
class Op:
    """One op of a chain: its name, and its parameters as the text gave them, defaults filled in."""

    name: str
    parameters: dict[str, Any]

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of the tensors that the op takes, in their order."""
        names = [] if self.name != "batch_norm" else ["mean", "var"]
        if self.parameters.get("affine"):
            names += ["weight", "bias"]
        if self.parameters.get("other") in ("channel", "tensor"):
            names.append("other")
        return tuple(names)

    @property
    def kept(self) -> str | None:
        """The name of a value that the chain kept before, if the op takes one."""
        term = self.parameters.get("other")
        return term if isinstance(term, str) and term not in _TERMS else None

    def dims(self, rank: int) -> tuple[int, ...]:
        """The axes of a tensor (N, C, space...) that the op is over, of one that says so."""
        return tuple(1 if axis == "c" else rank - 3 + "dhw".index(axis) for axis in self.parameters.get("axes") or "")

    @property
    def takes_f32(self) -> bool:
        """Whether the op's operands are float32, whatever the problem's dtype."""
        return self.parameters.get("dtype") == "f32"


@dataclasses.dataclass(frozen=True)
class Call:
    """A parsed text."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    prologue: tuple[Op, ...]
    chain: tuple[Op, ...]

    def operand_roles(self) -> list[tuple[Op, str]]:
        """For each operand the op that takes it and the name it has there."""
        return [(op, name) for op in (*self.prologue, *self.chain) for name in op.operands]

    @property
    def prologue_operands(self) -> int:
        """How many of the operands are the prologue's: the first ones."""
        return sum(len(op.operands) for op in self.prologue)


@functools.cache
def _vocabulary() -> dict[str, dict[str, Any]]:
    """The parameters of each op with their defaults, in the order of its signature."""
    ops = {}
    for row in _library.describe_ops():
        inside = row["signature"].partition("(")[2].rstrip(")")
        parameters: dict[str, Any] = {}
        for word in filter(None, (part.strip() for part in inside.split(","))):
            name, equals, value = word.partition("=")
            parameters[name.strip()] = _value(value.strip()) if equals else None
        ops[row["name"]] = parameters
    return ops


@functools.cache
def _by_channel() -> frozenset[str]:
    """Ops such as bias, which take a value per channel without saying so."""
    return frozenset(
        row["name"] for row in _library.describe_ops()
        if re.search(r"\bother\b", row["torch"]) and "other" not in _vocabulary()[row["name"]])


def _value(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word == "...":
        return None
    if re.fullmatch(r"\d+(x\d+)+", word):
        return tuple(int(size) for size in word.split("x"))
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return word


def _op(text: str) -> Op:
    name, _, inside = text.strip().partition("(")
    name = name.strip()
    known = _vocabulary().get(name)
    if known is None:
        raise _library.ConvtError(f"text: unknown op '{name}'")
    parameters = dict(known)
    positions = [key for key in known if key != "dtype" and not isinstance(known[key], bool)]
    words = [word.strip() for word in inside.strip().removesuffix(")").split(",")] if inside else []
    for position, word in enumerate(filter(None, words)):
        key, equals, value = (part.strip() for part in word.partition("="))
        if equals:
            parameters[key] = _value(value)
        elif isinstance(known.get(key), bool):
            parameters[key] = True
        elif position < len(positions):
            parameters[positions[position]] = _value(word)
        else:
            raise _library.ConvtError(f"text: '{word}' is no argument of {name}")
    if name in _by_channel():
        parameters["other"] = "channel"
    return Op(name, parameters)


@functools.lru_cache(maxsize=1024)
def parse(text: str, dims: int) -> Call:
    """Parses a text, for a convolution of so many dimensions."""
    prologue, head, ops = _parts(text)
    fields = dict(word.split("=") for word in head.split())

    def sizes(key: str, default: int) -> tuple[int, ...]:
        given = tuple(int(size) for size in fields.get(key, str(default)).split("x"))
        return given * dims if len(given) == 1 else given

    return Call(
        sizes("stride", 1), sizes("padding", 0), sizes("output_padding", 0), sizes("dilation", 1),
        int(fields.get("groups", "1")), tuple(map(_op, prologue)), tuple(map(_op, ops)))


def _parts(text: str) -> tuple[list[str], str, list[str]]:
    """A text's prologue, fields and chain."""
    parts = [part.strip() for part in text.split("|")]
    at = next((i for i, part in enumerate(parts) if part.split(None, 1)[:1] == [HEAD]), None)
    if at is None:
        return [], parts[0], parts[1:]
    return parts[:at], parts[at].removeprefix(HEAD).strip(), parts[at + 1 :]


def fields_in(text: str) -> str:
    """The convolution's fields alone: the text of a call without prologue and chain."""
    return _parts(text)[1]


def problem(text: str, dims: int, sizes: str) -> str:
    """The whole problem in text form: a call's text, with the fields that say its sizes."""
    prologue, fields, ops = _parts(text)
    return " | ".join([*prologue, f"{HEAD}{dims}d {sizes} {fields}".rstrip(), *ops])


def sizes(values: Sequence[int] | int) -> str:
    """Sizes in text form: one number where all are equal."""
    if isinstance(values, int):
        return str(values)
    given = [int(value) for value in values]
    return str(given[0]) if len(set(given)) == 1 else "x".join(map(str, given))


@functools.lru_cache(maxsize=1024)
def fields(
    stride: tuple[int, ...] | int, padding: tuple[int, ...] | int, output_padding: tuple[int, ...] | int, groups: int,
    dilation: tuple[int, ...] | int, precision: str, chain: str, prologue: str = "",
) -> str:
    """The text of a call; fields that have their default are left out."""
    words = [
        f"{key}={sizes(value)}"
        for key, value, default in (
            ("stride", stride, "1"), ("padding", padding, "0"), ("output_padding", output_padding, "0"),
            ("dilation", dilation, "1"), ("groups", groups, "1"))
        if sizes(value) != default
    ]
    if precision != "ieee":
        words.append(f"precision={precision}")
    if prologue:
        words.insert(0, f"{prologue} | {HEAD}")
    head = " ".join(words)
    return f"{head} | {chain}" if chain else head


def pool_sizes(op: Op, dims: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Size, stride and padding of a pool, per axis."""

    def each(value: Any) -> tuple[int, ...]:
        return tuple(value) if isinstance(value, tuple) else (int(value),) * dims

    size = each(op.parameters["size"])
    stride = each(op.parameters["stride"]) if op.parameters["stride"] else size
    padding = each(op.parameters.get("padding") or 0)
    return size, stride, padding


def output_shape(call: Call, input: Sequence[Any], weight: Sequence[Any]) -> list[Any]:
    """The result's shape; sizes may be symbolic."""
    dims = len(input) - 2
    shape = [input[0], weight[1] * call.groups, *(
        (input[i + 2] - 1) * call.stride[i] - 2 * call.padding[i] + call.dilation[i] * (weight[i + 2] - 1)
        + call.output_padding[i] + 1
        for i in range(dims)
    )]
    kept: dict[str, list[Any]] = {}
    for op in call.chain:
        if op.name in _POOLS:
            size, stride, padding = pool_sizes(op, dims)
            ceil = bool(op.parameters.get("ceil"))
            shape = [*shape[:2], *(_pooled(shape[i + 2], size[i], stride[i], padding[i], ceil) for i in range(dims))]
        elif op.name == "global_avg_pool":
            shape = [*shape[:2], *[1] * dims]
        elif op.name in _REDUCTIONS:
            over = op.dims(dims + 2)
            shape = [1 if axis in over else size for axis, size in enumerate(shape)]
        elif op.name == "keep":
            kept[op.parameters["name"]] = shape
        elif op.kept is not None:  # sizes of axes that were reduced are the number 1
            shape = [b if isinstance(a, int) and a == 1 else a for a, b in zip(shape, kept[op.kept])]
    return shape


def _pooled(length: Any, size: int, stride: int, padding: int, ceil: bool) -> Any:
    if not ceil:
        return (length + 2 * padding - size) // stride + 1
    windows = (length + 2 * padding - size + stride - 1) // stride + 1
    # A window that would begin in the padding at the end is dropped, as PyTorch does.
    return windows - 1 if (windows - 1) * stride >= length + padding else windows
