# SPDX-License-Identifier: Apache-2.0
"""Writes ops.pyi and problems.pyi into the folder given: hints for the functions that are made from the library's
tables. CONVT_LIBRARY names the library."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from convt import _op_table, _problem_table  # noqa: E402

HEAD = """# SPDX-License-Identifier: Apache-2.0
# Made from the library's tables.
from collections.abc import Sequence
from typing import Any, Union

Array = Any
Sizes = Union[int, Sequence[int]]
"""


def ops():
    return HEAD + "Term = Union[float, str, Array]\n\nfrom ._op import Op as Op\n\n" + "".join(
        row.definition(": ...\n") for row in _op_table.rows())


def problems():
    protocol = "\n".join([
        "class _Problem:", "    slug: str", "    chain: str", "    benchmark_case: str", "    demo_case: str", "", ""])
    functions = ""
    for row in _problem_table.rows():
        call = row.definition(": ...\n").replace(f"def {row.name}(", "    def __call__(self, ", 1)
        functions += f"class _{row.name}(_Problem):\n{call}\n{row.name}: _{row.name}\n\n"
    return f"{HEAD}\n{protocol}{functions}"


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ops.pyi").write_text(ops(), encoding="utf-8")
    (folder / "problems.pyi").write_text(problems(), encoding="utf-8")


if __name__ == "__main__":
    main()
