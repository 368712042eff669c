#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs and commands that README.md and docs/ show: compiled, run, and their results checked.

usage: readme_test.py BUILD_DIR C_COMPILER CXX_COMPILER"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD, CC, CXX = sys.argv[1:4]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{command}\nexit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def build_and_run(source, suffix, compiler):
    with tempfile.TemporaryDirectory() as folder:
        path, program = Path(folder, "example" + suffix), str(Path(folder, "example"))
        path.write_text(source)
        run(compiler + ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", str(path), "-o", program, f"-L{BUILD}",
                        "-lconvt", f"-Wl,-rpath,{BUILD}"])
        return run([program])


def blocks(page, language):
    found = [text for tag, text in BLOCK.findall((ROOT / page).read_text()) if tag == language]
    assert found, f"{page} shows no {language}"
    return found


(c_program,) = blocks("README.md", "c")
assert build_and_run(c_program, ".c", [CC, "-std=c11"]) == "1 -1 4 -2 7\n", "README.md's C example"

(cpp_program,) = blocks("README.md", "cpp")
assert build_and_run(cpp_program, ".cpp", [CXX, "-std=c++20"]).split() == ["0", "0", "1.5", "5"], "README.md's C++ example"

commands = [text for text in blocks("README.md", "sh") if text.startswith("convt ")]
assert len(commands) == 1
output = run(["bash", "-euc", f"convt() {{ {BUILD}/convt \"$@\"; }}\n{commands[0]}"])
for expected in ["leaky_relu", "216.", "100 passed, 0 failed", "instance_norm"]:
    assert expected in output, f"README.md's commands do not print {expected!r}:\n{output}"

# The grammar's example.
example = next(text for text in blocks("docs/text.md", "") if text.startswith("conv_transpose"))
assert "layer_norm(channels)" in run([f"{BUILD}/convt", "explain", example.strip()])

# HACKING's second example is the op itself; docs/text.md lists every op of the table.
assert any(text == (ROOT / "src/epilogue/ops/prelu.hpp").read_text() for text in blocks("docs/HACKING.md", "cpp")), \
    "docs/HACKING.md does not show src/epilogue/ops/prelu.hpp as it is"
section = (ROOT / "docs/text.md").read_text().split("\n## Operations\n", 1)[1].split("\nArguments are", 1)[0]
listed = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^- .*(?:\n  .*)*", section, re.M)).split(";")[0])
table = re.findall(r"^CONVT_OP\((\w+),", (ROOT / "src/epilogue/ops.def").read_text(), re.M)
assert sorted(listed) == sorted(table), f"docs/text.md's list of ops differs from ops.def: {set(listed) ^ set(table)}"

# One version everywhere.
header = (ROOT / "include/convt/convt.h").read_text()
version = ".".join(re.search(rf"^#define CONVT_VERSION_{part} (\d+)$", header, re.M).group(1)
                   for part in ("MAJOR", "MINOR", "PATCH"))
for page, pattern in (("CHANGELOG.md", r"^## \[([\d.]+)\]"), ("CITATION.cff", r"^version: (.*)$")):
    assert re.search(pattern, (ROOT / page).read_text(), re.M).group(1) == version, f"{page} is not about {version}"

# The picture of the recorded figures.
run([sys.executable, f"{ROOT}/bench/chart.py", "--check"])

print("the documentation's examples run as shown")
