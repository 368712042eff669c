#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times convt against PyTorch and ONNX Runtime on this machine's CPU: the named problems in float32, and the shapes of
shapes.txt, each in its dtype and layout. Every result is checked before its contender is timed. docs/performance.md says how to read the tables."""

import argparse
import json
import re
import sys

import torch

import bars
import machine
import ours
import peers
import report
import torch_peers
from timing import NOISY, TOLERANCE, log, measure, prepared, verify
from workload import CHANNELS_LAST, Workload, convt_abi, read_shapes, with_batch

ROUNDS = {"problems": 7, "shapes": 5}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("problems", "shapes"), help="that part alone")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose name contains a match")
    parser.add_argument("--threads", type=int, default=2, help="of every contender (default: 2, as the bars say)")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="time each case for as long, or for its least number of rounds (default: 2)")
    parser.add_argument("--smoke", action="store_true", help="the problems at reduced size: does the benchmark work?")
    parser.add_argument("--json", metavar="FILE", help="write everything measured, every round's time included")
    parser.add_argument("--record", action="store_true", help="renew the tables of docs/performance.md")
    options = parser.parse_args()
    if options.record and (options.part or options.only or options.smoke):
        parser.error("--record is for a whole run")
    return options


def contest(workload, contenders, part, seconds):
    """Checks and times the contenders, convt being the first: the part of an entry that both parts have."""
    log(f"{workload.name}: {workload.text}")
    expected = workload.expected()
    for contender in contenders:
        if contender.name != "sgemm":
            verify(contender, expected, TOLERANCE[workload.plan.input.dtype])
    del expected
    measure(contenders, ROUNDS[part], seconds)
    for contender in contenders:
        log(f"    {contender.name:22} " + (contender.failure or f"{1e3 * contender.median:10.3f} ms" + (
            "" if contender.error is None else f", error {contender.error:.1e}") + (
            f", the median over {NOISY}x the minimum" if contender.noisy else "")))
    convt, rivals = contenders[0], [contender for contender in contenders if contender.peer and contender.ran]

    def ratio(among, time=lambda contender: contender.median):
        return min(map(time, among)) / time(convt) if among and convt.ran else None

    return {"name": workload.name, "case": workload.plan.text, "engine": workload.plan.engine,
            "gflop": workload.flop / 1e9, "rounds": max(len(contender.samples) for contender in contenders),
            "gflops": workload.flop / convt.median / 1e9 if convt.ran else None,
            "ratio": ratio(rivals), "ratio_of_minima": ratio(rivals, lambda contender: min(contender.samples)),
            "noisy": any(contender.noisy for contender in (convt, *rivals)),
            "ratio_channels_first": ratio([rival for rival in rivals if rival.layout == "channels_first"]),
            "contenders": [describe(contender, workload, convt) for contender in contenders]}


def describe(contender, workload, convt):
    ran = contender.ran
    flop = peers.SGEMM_FLOP if contender.name == "sgemm" else workload.flop
    return {"name": contender.name, "layout": contender.layout, "peer": contender.peer, "error": contender.error,
            "failure": contender.failure, "samples_ms": [1e3 * sample for sample in contender.samples],
            "median_ms": 1e3 * contender.median if ran else None,
            "min_ms": 1e3 * min(contender.samples) if ran else None, "noisy": contender.noisy,
            "gflops": flop / contender.median / 1e9 if ran else None,
            "slower_than_convt": contender.median / convt.median if ran and convt.ran else None}


def run_problem(description, options):
    slug = description["slug"]
    text = description["demo_case"] if options.smoke else \
        with_batch(description["benchmark_case"], bars.PROBLEMS[slug].batch)
    workload = Workload(slug, text)
    contenders = [ours.named_problem(workload, description, ours.threads(options.threads)),
                  ours.named_problem(workload, description, ours.threads(1), "convt, 1 thread"),
                  prepared("PyTorch", torch_peers.eager, workload),
                  prepared("PyTorch channels_last", torch_peers.channels_last, workload),
                  prepared("torch.compile", torch_peers.compiled, workload),
                  prepared("ONNX Runtime", peers.onnx_runtime, workload, options.threads),
                  peers.sgemm()]
    entry = contest(workload, contenders, "problems", options.seconds)
    sgemm = entry["contenders"][-1]["gflops"]
    for contender in entry["contenders"]:
        contender["of_sgemm"] = contender["gflops"] and contender["gflops"] / sgemm
    entry["of_sgemm"] = entry["contenders"][0]["of_sgemm"]
    entry["scaling"] = entry["contenders"][1]["slower_than_convt"]
    return entry


def run_shape(name, text, options):
    workload = Workload(name, text)
    contenders = [prepared("convt", ours.plan, workload, ours.threads(options.threads)),
                  prepared("PyTorch", torch_peers.eager, workload)]
    if workload.case.dims in CHANNELS_LAST:
        contenders.append(prepared("PyTorch channels_last", torch_peers.channels_last, workload))
    return contest(workload, contenders, "shapes", options.seconds)


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    if machine.busy() > 0.5:
        log(f"other programs are running (load {machine.busy():.1f}): the times will be worth little")
    results = {"machine": machine.describe(options.threads), "threads": options.threads, "problems": [], "shapes": []}
    with torch.inference_mode():
        if options.part != "shapes":
            described = {row["slug"]: row for row in convt_abi.named_problems()}
            results["problems"] = [run_problem(described[slug], options) for slug in bars.PROBLEMS
                                   if re.search(options.only, slug)]
        if options.part != "problems":
            results["shapes"] = [run_shape(name, text, options) for name, text in read_shapes().items()
                                 if re.search(options.only, name)]
    text = report.render(results)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if options.record:
        report.record(text, "measured")
        log(f"renewed {report.DOCUMENT}")
    return any(entry["contenders"][0]["failure"] for entry in results["problems"] + results["shapes"])


if __name__ == "__main__":
    sys.exit(main())
