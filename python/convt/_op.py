# SPDX-License-Identifier: Apache-2.0
"""Operations of a chain as objects: their text form, and the arrays that go along with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Array = Any  # a NumPy array, or one that has __dlpack__


class Op:
    """An operation of a chain. str() is its text form; `operands` are the arrays that go along with it, if any."""

    __slots__ = ("name", "operands", "text", "_f32_text")

    def __init__(self, name: str, arguments: Sequence[str], operands: Sequence[Array] = (), follows: bool = False):
        self.name = name
        self.operands = tuple(operands)
        self.text = f"{name}({', '.join(arguments)})" if arguments else name
        #: With operands in float32, for problems of another element type.
        self._f32_text = f"{name}({', '.join([*arguments, 'dtype=f32'])})" if follows else self.text

    def text_for(self, same_dtype: bool) -> str:
        """The text form where the operands' element type is the problem's, or where it is float32 instead."""
        return self.text if same_dtype else self._f32_text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = len(self.operands)
        return f"convt.ops: {self.text}" + (f", with {count} operand{'s'[: count > 1]}" if count else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (self.name, self.text, self._f32_text, self.operands)


def _remake(name: str, text: str, f32_text: str, operands: tuple[Array, ...]) -> Op:
    op = Op(name, (), operands)
    op.text, op._f32_text = text, f32_text
    return op


def written(value: Any) -> str:
    """A parameter's value in the text form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, Iterable) and getattr(value, "shape", None) != ():
        return "x".join(str(int(size)) for size in value)
    return repr(float(value))


def shape_of(value: Any) -> tuple[int, ...] | None:
    """An array's shape; None for numbers, those in arrays without axes included."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if shape else None


def term_word(shape: tuple[int, ...]) -> str:
    channel = shape[1:] if shape[0] == 1 and len(shape) > 2 else shape
    return "channel" if all(size == 1 for size in channel[1:]) else "tensor"


def given_operands(name: str, operands: tuple[str, ...], values: dict[str, Any]) -> list[Array]:
    """All of an op's operands, or none of them: a chain may also leave them to Plan.run()."""
    given = [operand for operand in operands if values[operand] is not None]
    if not given:
        return []
    needed = list(operands)
    if not {"weight", "bias"} & set(given) and "affine" in values and not values["affine"]:
        needed = [operand for operand in needed if operand not in ("weight", "bias")]
    missing = [operand for operand in needed if operand not in given]
    if missing:
        raise TypeError(f"{name}() was given {' and '.join(given)}, and needs {' and '.join(missing)} as well")
    return [values[operand] for operand in needed]
