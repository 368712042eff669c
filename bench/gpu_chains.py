# SPDX-License-Identifier: Apache-2.0
"""Chains behind convolutions on a GPU: against the convolution alone, and against torch.compile."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

import gpu_machine
import gpu_timing
import ours
import torch_peers
from modes import MODES, with_mode
from report import geometric_mean, number, table, times
from timing import log, prepared
from workload import Workload, convt_abi

LAYERS = {
    "2d-s2": "conv_transpose2d batch=32 channels=64->64 input=128 kernel=3 stride=2 padding=1 output_padding=1",
    "3d-s2": "conv_transpose3d batch=16 channels=32->64 input=16x32x32 kernel=3 stride=2 padding=1 output_padding=1",
    "2d-s1": "conv_transpose2d batch=16 channels=64->64 input=256 kernel=3 padding=1",
}
ROUNDS = 10
COMPILER = "max-autotune-no-cudagraphs"
# Bars by kind, in times of the convolution alone: tf32, and 16 bits. Whole tensors come on top, at a copy's rate.
BARS = {"one op without transcendentals": (1.1, 1.15), "one transcendental op": (1.25, 1.5),
        "three and more pointwise ops": (1.5, 2.0), "whole tensors": (1.2, 1.3), "over channels": (1.5, 1.9)}
# Of norms over space: the convolution alone, and this many times a write and a read of its result at a copy's rate.
NORMS, NORMS_BAR = "norms over space", 1.4


@dataclass
class Alone:
    """The convolution alone: seconds, and bytes of its result."""

    seconds: float
    bytes: int


def bar_of(kind, mode, alone, operands, copy):
    """The most seconds that a chain may take; None where no bar is about its kind. copy: bytes per second, read and
    written."""
    tensors = sum(info.bytes for info in operands) / copy
    if kind in BARS:
        return BARS[kind][mode != "tf32"] * alone.seconds + tensors
    return alone.seconds + NORMS_BAR * 2 * alone.bytes / copy + tensors if kind == NORMS else None


def read_chains(path=Path(__file__).parent / "chains.txt"):
    """(kind, chain) of every line."""
    kind, chains = None, []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line.strip() and not line.startswith("#"):
            if kind is None:
                sys.exit(f"{path}: {line!r} stands before the first [kind]")
            chains.append((kind, line.strip()))
    return chains


def convt_of(text, mode):
    workload = Workload("chain", with_mode(text, mode), gpu=0)
    return workload, prepared("convt", ours.plan, workload, ours.precision(MODES[mode][1]))


def measure(contenders, seconds):
    gpu_timing.measure(contenders, ROUNDS, seconds)
    return [contender.median if contender.ran else None for contender in contenders]


def run_layer(layer, mode, options, check, copy):
    workload, convt = convt_of(LAYERS[layer], mode)
    alone_seconds, = measure([convt], options.seconds)
    alone = Alone(alone_seconds, workload.plan.output.bytes)
    entries = []
    for kind, chain in read_chains():
        if not re.search(options.only, f"{layer} {kind}: {chain}"):
            continue
        try:
            workload, convt = convt_of(f"{LAYERS[layer]} | {chain}", mode)
        except convt_abi.ConvtError as error:
            log(f"{layer} {mode} {chain}: {error}")
            continue
        contenders = [convt]
        if re.search(options.peers, "torch.compile"):
            contenders.append(prepared("torch.compile", lambda own: torch_peers.compiled(own, COMPILER), workload))
        check(workload, contenders, mode)
        own, *peers = measure(contenders, options.seconds)
        entry = {"layer": layer, "mode": mode, "kind": kind, "chain": chain, "alone_ms": 1e3 * alone_seconds,
                 "bar_ms": 1e3 * bar if (bar := bar_of(kind, mode, alone, workload.plan.operands, copy)) else None,
                 "failure": convt.failure, "ms": own and 1e3 * own, "of_alone": own and own / alone_seconds,
                 "against_compile": peers[0] / own if own and peers and peers[0] else None}
        log(f"{layer} {mode} {chain}: " + (convt.failure or f"{entry['ms']:.4f} ms, {entry['of_alone']:.2f} of the "
                                           f"convolution alone, torch.compile {times(entry['against_compile'])}"))
        entries.append(entry)
        torch.cuda.empty_cache()
    return entries


def run(options, check):
    copy = gpu_machine.copy_rate()
    return [entry for layer in LAYERS for mode in options.dtype if mode != "ieee"
            for entry in run_layer(layer, mode, options, check, copy)]


def judged(entries):
    """How many of them hold their bar."""
    bars = [entry["ms"] <= entry["bar_ms"] for entry in entries if entry["bar_ms"]]
    return f"; {sum(bars)} of {len(bars)} hold the bar" if bars else ""


def failed(entry):
    return bool(entry["failure"])


def render(entries):
    rows = [[entry["layer"], entry["mode"], entry["chain"], number(entry["ms"]), number(entry["of_alone"]),
             times(entry["against_compile"])] for entry in entries]
    lines = [table(["layer", "mode", "chain", "convt ms", "of the convolution alone", "against torch.compile"], rows)]
    for mode in dict.fromkeys(entry["mode"] for entry in entries):
        for kind in dict.fromkeys(entry["kind"] for entry in entries):
            own = [entry for entry in entries if (entry["mode"], entry["kind"]) == (mode, kind) and entry["of_alone"]]
            if own:
                worst = max(own, key=lambda entry: entry["of_alone"])
                lines.append(f"- {mode}, {kind}: {number(geometric_mean([entry['of_alone'] for entry in own]))} of the "
                             f"convolution alone; at most {number(worst['of_alone'])} ({worst['layer']}, "
                             f"{worst['chain']}){judged(own)}")
        ratios = [entry["against_compile"] for entry in entries if entry["mode"] == mode and entry["against_compile"]]
        if ratios:
            lines.append(f"- {mode}: torch.compile takes {times(geometric_mean(ratios))} the time in geometric mean, "
                         f"{times(min(ratios))} at least, over {len(ratios)}")
    return "\n".join(lines)
