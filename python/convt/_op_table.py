# SPDX-License-Identifier: Apache-2.0
"""The library's table of operations, read as Python functions: ops.py defines them, and its stub is made from them."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from ._library import describe_ops
from ._op import Op, given_operands, shape_of, term_word, written

# Names in a row's PyTorch expression that are neither parameters nor operands.
_NO_OPERANDS = {"x", "F", "torch", "max_pool", "avg_pool", "tuple", "range", "along", "dims", "isinstance", "int"}


class Parameter(NamedTuple):
    name: str
    default: str  # a Python expression, or "" where one must be given
    hint: str
    named: bool  # given by name only

    @property
    def value(self) -> Any:
        """The default's."""
        return eval(self.default)


class Row(NamedTuple):
    name: str
    about: str
    torch: str
    examples: tuple[str, ...]
    parameters: tuple[Parameter, ...]  # those of the text form
    operands: tuple[str, ...]  # names of the tensors the op takes, in the order of the chain's operands
    term: str  # the name of the parameter that is a number, a word or an operand, if there is one

    @property
    def python_parameters(self) -> list[Parameter]:
        """Parameters of the Python function: an operand that is given says that the op is affine."""
        operands = [] if self.term else [Parameter(name, "None", "Array | None", False) for name in self.operands]
        parameters = [p for p in self.parameters if p.name != "affine"]
        required = [p for p in parameters if not p.default]
        optional = [p for p in parameters if p.default and not p.named]
        flags = [p for p in parameters if p.named]
        if "weight" in self.operands and "mean" not in self.operands:  # as torch.nn's norms: numbers first
            operands = [p._replace(named=True) for p in operands]
        positional = [*required, *(p for p in operands if not p.named), *optional]
        named = [*(p for p in operands if p.named), *flags]
        if any(p.name == "affine" for p in self.parameters):
            named.append(Parameter("affine", "False", "bool", True))
        return [*positional, *named]

    def make(self, values: dict[str, Any]) -> Op:
        """The op, from the values of its Python function's parameters."""
        operands: list[Any] = []
        arguments: list[str] = []
        if self.term:
            term = values[self.term]
            shape = shape_of(term)
            operands = [] if shape is None else [term]
            if term is not None:
                arguments.append(written(term) if shape is None else term_word(shape))
        elif self.operands:
            operands = given_operands(self.name, self.operands, values)
        for parameter in self.parameters:
            value = values[parameter.name]
            if parameter.name == "affine":
                value = value or values["weight"] is not None
            if parameter.name == self.term or parameter.name == "dtype" or value is None:
                continue
            if parameter.hint == "bool":
                if bool(value) != (parameter.default == "True"):
                    arguments.append(parameter.name if value else f"{parameter.name}=false")
            elif not parameter.default:
                arguments.append(written(value))
            elif value != parameter.value:
                arguments.append(f"{parameter.name}={written(value)}")
        dtype = values.get("dtype")
        if dtype not in (None, "same"):
            arguments.append(f"dtype={dtype}")
        return Op(self.name, arguments, operands, follows=dtype is None and len(operands) > 0)

    def function(self, module: str) -> Any:
        """The Python function that makes the op."""
        scope: dict[str, Any] = {"row": self}
        exec("from __future__ import annotations\n" + self.definition(": return row.make(locals())"), scope)
        function = scope[self.name]
        function.__module__, function.__doc__ = module, self.help
        return function

    def definition(self, ending: str) -> str:
        """`def name(...) -> Op` and the ending."""
        texts, starred = [], False
        for p in self.python_parameters:
            if p.named and not starred:
                texts.append("*")
                starred = True
            texts.append(f"{p.name}: {p.hint}" + (f" = {p.default}" if p.default else ""))
        return f"def {self.name}({', '.join(texts)}) -> Op{ending}"

    @property
    def help(self) -> str:
        lines = [f"{self.about[0].upper()}{self.about[1:]}.", "", f"In PyTorch: {self.torch}", ""]
        return "\n".join([*lines, "Uses of it, as text: " + "; ".join(self.examples)])


def _parameter(text: str, term: str) -> Parameter:
    name, _, default = text.partition("=")
    if name == "dtype":
        return Parameter(name, "None", "str | None", True)
    if name == term:
        return Parameter(name, "None" if default else "", "Term | None" if default else "Term", False)
    if not default:
        return Parameter(name, "", {"name": "str", "size": "Sizes", "groups": "int"}.get(name, "float"), False)
    if default == "...":
        return Parameter(name, "None", "Sizes | None", False)
    if default in ("true", "false"):
        return Parameter(name, default.capitalize(), "bool", True)
    if default.lstrip("-") in ("inf", "nan"):
        default = f'float("{default}")'
    elif default.isalpha():
        return Parameter(name, f'"{default}"', "str", False)
    return Parameter(name, default, "float", False)


def _row(described: dict[str, str]) -> Row:
    name, _, inside = described["signature"].rstrip(")").partition("(")
    examples = tuple(described["examples"].splitlines())
    term = "other" if inside.startswith("other") else ""
    parameters = tuple(_parameter(text, term) for text in inside.split(", ") if text)
    names = [node for node in ast.walk(ast.parse(described["torch"], mode="eval")) if isinstance(node, ast.Name)]
    names.sort(key=lambda node: node.col_offset)
    known = _NO_OPERANDS | {p.name for p in parameters}
    operands = tuple(dict.fromkeys(node.id for node in names if node.id not in known))
    return Row(name, described["about"], described["torch"], examples, parameters,
               (term,) if term else operands, term)


def rows() -> list[Row]:
    return [_row(described) for described in describe_ops()]
