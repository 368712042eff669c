# SPDX-License-Identifier: Apache-2.0
"""The library's table of named problems, read as Python functions: problems.py defines them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._library import describe_named_problems

_SIZES = {"stride": "1", "padding": "0", "output_padding": "0", "dilation": "1"}


class Row(NamedTuple):
    slug: str
    chain: str
    benchmark_case: str
    demo_case: str
    dims: int
    sizes: tuple[str, ...]  # those of stride, padding, output_padding and dilation that the problem has
    groups: bool
    bias: bool
    scalars: tuple[str, ...]  # numbers that stand in the chain

    @property
    def name(self) -> str:
        return self.slug.replace("-", "_")

    def definition(self, ending: str) -> str:
        """`def name(...) -> Any` and the ending."""
        parameters = ["input: Array", "kernel: Array"] + ["conv_bias: Array"] * self.bias
        parameters += [f"{name}: Sizes = {_SIZES[name]}" for name in self.sizes]
        parameters += ["groups: int = 1"] * self.groups + ["*"]
        parameters += [f"{name}: float" for name in self.scalars]
        parameters += ["precision: str | None = None", "out: Any = None"]
        return f"def {self.name}({', '.join(parameters)}) -> Any{ending}"

    @property
    def body(self) -> str:
        """A call of _functional._convolve."""
        chain = self.chain.removeprefix("bias").lstrip(" |") if self.bias else self.chain
        for name in self.scalars:
            chain = chain.replace(f"({name})", f"({{float({name})!r}})")
        sizes = ", ".join(name if name in self.sizes else default for name, default in _SIZES.items())
        return (f"convolve({self.dims}, input, kernel, {'conv_bias' if self.bias else None}, ({sizes}), "
                f"{'groups' if self.groups else 1}, (), f'{chain}', (), precision, out)")

    def function(self, module: str) -> Any:
        """The Python function that runs the problem."""
        from ._functional import _convolve

        scope: dict[str, Any] = {"convolve": _convolve}
        exec("from __future__ import annotations\n" + self.definition(f": return {self.body}"), scope)
        function = scope[self.name]
        function.__module__ = module
        function.__doc__ = (f"The problem {self.slug}: a transposed convolution"
                            + (f", then {self.chain}." if self.chain else ".")
                            + f"\n\nBenchmarks run it as: {self.benchmark_case}")
        function.slug, function.chain = self.slug, self.chain
        function.benchmark_case, function.demo_case = self.benchmark_case, self.demo_case
        return function


def _row(described: dict[str, str]) -> Row:
    parameters, chain = described["parameters"].split(), described["chain"]
    sizes = tuple(name for name in _SIZES if f"{name}_w" in parameters)
    scalars = tuple(name for name in parameters if f"({name})" in chain)
    return Row(described["slug"], chain, described["benchmark_case"], described["demo_case"],
               3 if "depth" in parameters else 2, sizes, "groups" in parameters, chain.startswith("bias"), scalars)


def rows() -> list[Row]:
    return [_row(described) for described in describe_named_problems()]
