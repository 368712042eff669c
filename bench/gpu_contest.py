# SPDX-License-Identifier: Apache-2.0
"""One run of the GPU's benchmark, as bench/gpu.py asks for it."""

import dataclasses
import json
import re

import torch

import gpu_calls
import gpu_chains
import gpu_machine
import gpu_planner
import gpu_report
import gpu_timing
import ours
import report
import torch_peers
from modes import MODES, with_mode
from timing import log, prepared, verify
from workload import CHANNELS_LAST, Workload, convt_abi, read_shapes

ROUNDS = {"problems": 10, "shapes": 10}

# Relative Frobenius error: far above what rounding makes of any case here, far below any mistake.
TOLERANCE = {"ieee": 1e-4, "tf32": 5e-3, "bf16": 5e-2, "f16": 1e-2}

# The oracle computes as many images as fit into this many operations in float64.
ORACLE_FLOP = 2e11

AUTOTUNE = "max-autotune"

# Parts of their own, which run where they are asked for.
OTHER_PARTS = {"chains": gpu_chains, "planner": gpu_planner, "calls": gpu_calls}


def use_switches(mode, benchmark):
    def use():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
        torch.backends.cudnn.benchmark = benchmark
    return use


def peers_of(workload, mode, named):
    """PyTorch's modes, by name, and how to make each."""
    makers = {"PyTorch": (torch_peers.eager, False), "cudnn.benchmark": (torch_peers.eager, True)}
    if workload.case.dims in CHANNELS_LAST:
        makers["channels_last"] = (torch_peers.channels_last, True)
    if named:
        makers["torch.compile"] = (lambda workload: torch_peers.compiled(workload, AUTOTUNE), False)
    return {name: prepared_peer(name, make, workload, use_switches(mode, benchmark))
            for name, (make, benchmark) in makers.items()}


def prepared_peer(name, make, workload, before):
    before()
    return dataclasses.replace(prepared(name, make, workload), name=name, before=before)


def frobenius(result, expected):
    difference = torch.linalg.vector_norm(result.double() - expected)
    return float(difference / torch.linalg.vector_norm(expected))


def check(workload, contenders, mode):
    per_image = workload.flop / max(workload.case.batch, 1)
    images = min(max(int(ORACLE_FLOP / per_image), 1), workload.case.batch)
    expected = workload.expected(images)
    for contender in contenders:
        verify(contender, expected, TOLERANCE[mode], frobenius)
        torch.cuda.synchronize()
        if not contender.failure and not contender.peer and not torch.isfinite(contender.call()).all():
            contender.failure = "wrong result: elements that were not written"


def contest(workload, contenders, part, mode, options, ceilings):
    """Checks and times the contenders, convt being the first."""
    log(f"{workload.name} {mode}: {workload.text}")
    check(workload, contenders, mode)
    gpu_timing.measure(contenders, ROUNDS[part], options.seconds)
    for contender in contenders:
        log(f"    {contender.name:18} " + (contender.failure or
                                           f"{1e3 * contender.median:10.4f} ms, error {contender.error:.1e}"))
    convt, rivals = contenders[0], [contender for contender in contenders if contender.peer and contender.ran]
    floor = gpu_machine.floor(workload.flop, workload.bytes, mode, ceilings)
    best = min((rival.median for rival in rivals), default=None)
    return {"name": workload.name, "mode": mode, "case": workload.plan.text, "engine": workload.plan.engine,
            "gflop": workload.flop / 1e9, "bytes": workload.bytes, "floor_ms": 1e3 * floor.seconds,
            "floor_by": floor.binds, "of_floor": convt.median / floor.seconds if convt.ran else None,
            "ratio": best / convt.median if best and convt.ran else None,
            "contenders": [describe(contender, convt) for contender in contenders]}


def describe(contender, convt):
    ran = contender.ran
    return {"name": contender.name, "peer": contender.peer, "error": contender.error, "failure": contender.failure,
            "samples_ms": [1e3 * sample for sample in contender.samples],
            "median_ms": 1e3 * contender.median if ran else None,
            "host_us": 1e6 * contender.median_host if ran else None,
            "slower_than_convt": contender.median / convt.median if ran and convt.ran else None}


def run_case(name, text, mode, description, options, ceilings):
    """A named problem where there is a description of it, else a plan."""
    workload = Workload(name, with_mode(text, mode), gpu=0)
    before = ours.precision(MODES[mode][1])
    convt = prepared("convt", ours.named_problem, workload, description, before) if description else \
        prepared("convt", ours.plan, workload, before)
    peers = [peer for name, peer in peers_of(workload, mode, bool(description)).items()
             if re.search(options.peers, name)]
    entry = contest(workload, [convt, *peers], "problems" if description else "shapes", mode, options, ceilings)
    torch.cuda.empty_cache()
    return entry


def run(options):
    if not torch.cuda.is_available():
        log("PyTorch sees no GPU here: nothing to measure")
        return 1
    if options.part in OTHER_PARTS:
        part = OTHER_PARTS[options.part]
        with torch.inference_mode():
            entries = part.run(options, check)
        print(part.render(entries))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(entries, file, indent=1)
        return any(part.failed(entry) for entry in entries)
    ceilings = gpu_machine.measure_ceilings()
    results = {"machine": gpu_machine.describe(ceilings), "ceilings": ceilings, "problems": [], "shapes": []}
    described = {row["slug"]: row for row in convt_abi.named_problems()}
    with torch.inference_mode():
        for part, cases in (("problems", {slug: row["benchmark_case"] for slug, row in described.items()}),
                            ("shapes", read_shapes())):
            if options.part in (None, part):
                results[part] = [run_case(name, text, mode, described.get(name), options, ceilings)
                                 for name, text in cases.items() if re.search(options.only, name)
                                 for mode in options.dtype]
    text = gpu_report.render(results)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if options.record:
        report.record(text, "measured on a GPU")
        log(f"renewed {report.DOCUMENT}")
    return any(entry["contenders"][0]["failure"] for entry in results["problems"] + results["shapes"])
