#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source file names its license and is short enough to read: exits 1 and names those that do not."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SOURCES = ["*.h", "*.hpp", "*.c", "*.cpp", "*.cu", "*.cuh", "*.inc", "*.def", "*.map", "*.py", "*.cmake",
           "CMakeLists.txt", "*/CMakeLists.txt", "Makefile", "tools/*", ".ci/*"]
SPDX = "SPDX-License-Identifier: Apache-2.0"
SPDX_WITHIN = 3  # lines: a script has its interpreter, and perhaps an encoding, above it
MAX_LINES = 500


def problems_of(lines):
    if not any(SPDX in line for line in lines[:SPDX_WITHIN]):
        yield f"no '{SPDX}' in its first {SPDX_WITHIN} lines"
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines; at most {MAX_LINES}"


def main():
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES],
                             cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = sorted(name for name in set(listing.split("\0")) if name and (ROOT / name).is_file())
    bad = [f"{name}: {text}" for name in files
           for text in problems_of((ROOT / name).read_text(encoding="utf-8").splitlines())]
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"check_style: {len(files)} files, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
