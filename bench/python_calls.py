#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs through Python: the five named problems by convt.problems, on NumPy arrays, beside their C functions
on the same memory. The bar is 3 % and 20 us over the C function. Results are compared first, and are the same bits.

Calls alternate. Minima are compared, since whatever else the machine does only ever adds to a time."""

import argparse
import re
import sys
import time

import torch

import bars
import ours
from timing import Contender, log
from workload import Workload, convt_abi, with_batch

import convt  # isort: skip  # found by convt_abi

SHARE, EXTRA_S = 0.03, 20e-6
# The library's threads wait actively for more work for a moment after a call, and then sleep. Every call here finds them
# asleep: else a call that comes some microseconds later pays for waking them, and not for itself.
REST_S = 0.5e-3


def through_python(workload, description, before):
    function = getattr(convt.problems, description["slug"].replace("-", "_"))
    case = workload.case
    names = function.__code__.co_varnames[:function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    values = {**case.axes, "groups": case.groups}
    scalars = dict(zip(description["parameters"].split(), ours.arguments(case, description)))
    keywords = {name: values.get(name, scalars.get(name)) for name in names if name in values or name in scalars}
    keywords = {name: value for name, value in keywords.items() if name not in ("input", "kernel")}
    output = workload.empty_output()  # the C function's too: where it lies may matter more than the call
    tensors = [tensor.numpy() for tensor in (workload.input, workload.kernel, *workload.operands)]
    out = output.numpy()

    def call():
        function(*tensors, **keywords, out=out)
        return output
    return Contender("convt.problems", call, before=before)


def contest(description, text, options):
    workload = Workload(description["slug"], text)
    output = workload.empty_output()
    workload.empty_output = lambda: output
    before = ours.threads(options.threads)
    contenders = [ours.named_problem(workload, description, before, "C"),
                  through_python(workload, description, before)]
    results = []
    for contender in contenders:
        contender.before()
        results.append(contender.call().clone())
    assert torch.equal(*results), f"{description['slug']}: Python's result is not the C function's"
    start = time.perf_counter()
    while len(contenders[0].samples) < options.rounds or time.perf_counter() - start < options.seconds:
        for contender in contenders:
            time.sleep(REST_S)
            before = time.perf_counter()
            contender.call()
            contender.samples.append(time.perf_counter() - before)
    return [min(contender.samples) for contender in contenders]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", metavar="REGEX", default="", help="the problems whose name contains a match")
    parser.add_argument("--smoke", action="store_true", help="reduced sizes alone")
    options = parser.parse_args()
    rows = []
    with torch.inference_mode():
        for description in convt_abi.named_problems():
            slug = description["slug"]
            if not re.search(options.only, slug):
                continue
            cases = {"reduced": description["demo_case"]}
            if not options.smoke:
                cases["benchmark"] = with_batch(description["benchmark_case"], bars.PROBLEMS[slug].batch)
            for size, text in cases.items():
                log(f"{slug}, {size}: {text}")
                c, python = contest(description, text, options)
                holds = python <= (1 + SHARE) * c + EXTRA_S
                rows.append(f"| {slug} | {size} | {1e3 * c:.3f} | {1e3 * python:.3f} | {1e6 * (python - c):+.0f} | "
                            f"{100 * (python / c - 1):+.1f} % | {'yes' if holds else 'no'} |")
    print("| problem | size | C, ms | Python, ms | difference, us | | within 3 % + 20 us |")
    print("|---|---|---|---|---|---|---|", *rows, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
