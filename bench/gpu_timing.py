# SPDX-License-Identifier: Apache-2.0
"""Contenders on a GPU take turns of one call each, between two events, the L2 cache full of something else."""

import time

import torch

# Calls before the clock runs: code is loaded, memory allocated, and cudnn.benchmark has chosen.
WARM_UP = 2

MOST_ROUNDS = 500


class Stopwatch:
    """What is written over the L2 cache is many times its size: writing it takes longer (about half a millisecond on an
    H200) than it takes to launch a call, so that the time between the events is that of the GPU alone."""

    def __init__(self):
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        self.filler = torch.empty(max(8 * cache, 2**31), dtype=torch.uint8, device="cuda")
        self.begin, self.end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def turn(self, contender):
        """Seconds of a call on the GPU, and until it returned."""
        contender.before()
        self.filler.zero_()
        self.begin.record()
        start = time.perf_counter()
        result = contender.call()
        host = time.perf_counter() - start
        self.end.record()
        self.end.synchronize()
        del result
        return self.begin.elapsed_time(self.end) / 1e3, host


def measure(contenders, rounds, seconds):
    """Rounds in which each contender has one turn: at least `rounds`, then more until `seconds` have passed."""
    contenders = [contender for contender in contenders if not contender.failure]
    stopwatch = Stopwatch()
    for contender in contenders:
        for _ in range(WARM_UP):
            stopwatch.turn(contender)
    start = time.perf_counter()
    done = 0
    while contenders and (done < rounds or (time.perf_counter() - start < seconds and done < MOST_ROUNDS)):
        for contender in contenders:
            on_gpu, on_host = stopwatch.turn(contender)
            contender.samples.append(on_gpu)
            contender.host_samples.append(on_host)
        done += 1
