#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times convt against PyTorch on this machine's GPU: the named problems at the benchmark's sizes, and the shapes of
shapes.txt, in float32 (ieee and tf32), bfloat16 and float16. Every result is checked before its contender is timed.
docs/performance.md says how to read the tables."""

import argparse
import os
import sys
from pathlib import Path

from modes import MODES

ROOT = Path(__file__).resolve().parents[1]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", metavar="PATH", default=ROOT / "build/cuda/libconvt.so",
                        help="a CUDA build's libconvt.so (default: that of the cuda preset)")
    parser.add_argument("--part", choices=("problems", "shapes", "chains", "planner", "calls"),
                        help="that part alone; problems and shapes are what runs without it")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose name contains a match")
    parser.add_argument("--dtype", choices=MODES, action="append", help="that mode alone; may be repeated")
    parser.add_argument("--peers", metavar="REGEX", default="", help="the modes of PyTorch whose name contains a match")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="time each case for as long, or for its least number of rounds (default: 1)")
    parser.add_argument("--least-us", type=float, default=50, metavar="US",
                        help="of the planner's cases, leave out those that take less (default: 50)")
    parser.add_argument("--json", metavar="FILE", help="write everything measured, every round's time included")
    parser.add_argument("--record", action="store_true", help="renew the GPU's tables of docs/performance.md")
    options = parser.parse_args()
    if options.record and (options.part or options.only or options.dtype or options.peers):
        parser.error("--record is for a whole run")
    options.dtype = options.dtype or list(MODES)
    options.gpu = 0
    return options


def main():
    options = parse_arguments()
    os.environ["CONVT_LIBRARY"] = str(Path(options.library).resolve())
    import gpu_contest  # pylint: disable=import-outside-toplevel  # loads the library
    return gpu_contest.run(options)


if __name__ == "__main__":
    sys.exit(main())
