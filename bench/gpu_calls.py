# SPDX-License-Identifier: Apache-2.0
"""What calls cost on the host: the named problems at the benchmark's sizes through their C functions and through plans,
less as many launches of nothing with as many bytes of parameters."""

import ctypes as c
import re
import statistics
import time

import torch

import ours
from cuda_driver import Driver
from modes import MODES, with_mode
from report import number, table
from timing import log, prepared
from workload import Workload, convt_abi

BATCH = 10  # calls between waits: far fewer than the driver's queue holds
BATCHES = 40
BARS_US = {"named problem": 12, "plan": 6}
MEMSET_BYTES = 64  # a memset counts as a launch with few parameters


def host_seconds(call):
    """Of one call, the median of batches; the device is idle when a batch begins."""
    samples = []
    for batch in range(BATCHES + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BATCH):
            call()
        if batch > 0:
            samples.append((time.perf_counter() - start) / BATCH)
    torch.cuda.synchronize()
    return statistics.median(samples)


class Floors:
    """Host times of launches of nothing, without Python's part."""

    def __init__(self, driver, stream):
        self.driver, self.stream, self.known = driver, stream, {}

    def seconds(self, size):
        size = MEMSET_BYTES if size is None else max(size, 8)
        if size not in self.known:
            launch, rejected = self.driver.empty_launch(size, self.stream)
            self.known[size] = max(host_seconds(launch) - host_seconds(rejected), 0)
        return self.known[size]

    def of(self, sizes):
        return sum(self.seconds(size) for size in sizes)


def nothing_like(*signature):
    """A function of a problem's signature that does nothing. It returns 0 while the thread's precision is IEEE."""
    prototype = c.CFUNCTYPE(c.c_int, *convt_abi.entry_point(*signature).argtypes)
    return prototype(c.cast(convt_abi.lib.convt_get_float32_precision, c.c_void_p).value)


def python_seconds(way, workload, description):
    """What Python takes of a call."""
    if way == "plan":
        return host_seconds(convt_abi.lib.convt_get_num_threads)
    ours.precision("ieee")()
    return host_seconds(ours.named_problem(workload, description, None, entry_point=nothing_like).call)


def run_case(slug, description, mode, floors, check):
    text = with_mode(description["benchmark_case"], mode)
    before = ours.precision(MODES[mode][1])
    before()
    entries = []
    for way in BARS_US:
        workload = Workload(slug, text, gpu=0)
        contender = prepared(way, ours.named_problem, workload, description, before) if way == "named problem" else \
            prepared(way, ours.plan, workload, before, floors.stream)
        check(workload, [contender], mode)
        entry = {"name": slug, "mode": mode, "way": way, "failure": contender.failure}
        if not contender.failure:
            sizes = floors.driver.launches_of(contender.call, floors.stream)
            seconds = host_seconds(contender.call) - python_seconds(way, workload, description)
            before()
            entry |= judged(way, seconds, sizes, floors.of(sizes))
        log(f"{slug} {mode}, {way}: " + (contender.failure or f"{entry['us']:.1f} us, {entry['own_us']:.1f} without "
                                         f"{entry['launches']} launches"))
        entries.append(entry)
        torch.cuda.empty_cache()
    return entries


def judged(way, seconds, sizes, floor):
    own = 1e6 * (seconds - floor)
    return {"us": 1e6 * seconds, "launches": len(sizes), "bytes": sum(size or 0 for size in sizes),
            "floor_us": 1e6 * floor, "own_us": own, "bar_us": BARS_US[way], "holds": own <= BARS_US[way]}


def run(options, check):
    """On a stream of its own, as the default stream cannot be captured."""
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        convt_abi.check(convt_abi.lib.convt_set_stream(stream.cuda_stream))
        floors = Floors(Driver(), stream.cuda_stream)
        return [entry for row in convt_abi.named_problems() if re.search(options.only, row["slug"])
                for mode in options.dtype for entry in run_case(row["slug"], row, mode, floors, check)]


def failed(entry):
    return bool(entry["failure"])


def render(entries):
    rows = [[entry["name"], entry["mode"], entry["way"], number(entry["us"]), entry["launches"], entry["bytes"],
             number(entry["floor_us"]),
             f"{entry['own_us']:.1f} (<= {entry['bar_us']}){'' if entry['holds'] else ' MISSED'}"]
            for entry in entries if not entry["failure"]]
    lines = [f"- {entry['name']} {entry['mode']}, {entry['way']}: {entry['failure']}"
             for entry in entries if entry["failure"]]
    return "\n".join([*lines, table(["problem", "mode", "call", "host us", "launches", "parameter bytes",
                                     "launches of nothing, us", "without them, us"], rows)])
