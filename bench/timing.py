# SPDX-License-Identifier: Apache-2.0
"""Contenders that compute the same thing: first each result is checked, then all are timed, taking turns."""

import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Callable

# Of the largest element, by dtype: far above what rounding makes of any case here (PyTorch rounds behind every op), far
# below any mistake.
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "f16": 1e-2, "bf16": 5e-2}

# A median that far above the minimum was measured while other programs had the machine.
NOISY = 1.5

# A thread pool that has just run spins for a while in case more work comes: 8 ms were measured after PyTorch's ops.
# Telling it not to would slow PyTorch down, so everyone waits until the cores are free.
REST_S = 0.02

# A turn of quick calls is many of them, so that its time is well above the clock's grain; one untimed call wakes the
# threads up.
TURN_S = 0.005
MOST_CALLS = 500


@dataclass
class Contender:
    name: str
    call: Callable  # runs once and gives the result as a PyTorch tensor
    before: Callable = lambda: None  # untimed, before each turn
    peer: bool = False
    layout: str = "channels_first"  # of the tensors it is given
    error: float | None = None  # of its result, relative to the largest element
    failure: str | None = None  # why it has no times
    samples: list = field(default_factory=list)  # seconds of a call, one per round
    host_samples: list = field(default_factory=list)  # on a GPU: seconds until a call returned

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def noisy(self):
        return self.ran and self.median > NOISY * min(self.samples)

    @property
    def median_host(self):
        return statistics.median(self.host_samples)

    @property
    def ran(self):
        return bool(self.samples)


def prepared(name, make, *arguments):
    """The contender that make() builds, or one that says why it cannot take part."""
    try:
        return make(*arguments)
    except Exception as error:  # pylint: disable=broad-except  # whatever stops a peer is a line of the report
        return Contender(name, None, failure=reason(error))


def reason(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160] if text else ''}"


def largest_difference(result, expected):
    """Relative to the largest element."""
    return float((result.double() - expected).abs().max() / expected.abs().max())


def log(text):
    print(text, file=sys.stderr, flush=True)


def verify(contender, expected, tolerance, error=largest_difference):
    """Its first call, compared with the float64 result, which may be of the first images alone."""
    if contender.failure:
        return
    try:
        contender.before()
        result = contender.call()
    except Exception as error:  # pylint: disable=broad-except
        contender.failure = reason(error)
        return
    result = result[:expected.shape[0]]
    if result.shape != expected.shape:
        contender.failure = f"wrong shape: {tuple(result.shape)}, not {tuple(expected.shape)}"
        return
    contender.error = error(result, expected)
    if not contender.error <= tolerance:
        contender.failure = f"wrong result: error {contender.error:.1e}, over {tolerance:.0e}"


def turn(contender, calls):
    """Seconds per call, after a rest."""
    time.sleep(REST_S)
    contender.before()
    if calls > 1:
        contender.call()
    start = time.perf_counter()
    for _ in range(calls):
        contender.call()
    return (time.perf_counter() - start) / calls


def calls_per_turn(contender):
    calls = 1
    for _ in range(2):  # the first call after a rest may be far slower than those behind it
        calls = min(max(round(TURN_S / turn(contender, calls)), 1), MOST_CALLS)
        if calls == 1:
            break
    return calls


def measure(contenders, rounds, seconds):
    """Rounds in which each contender has one turn: at least `rounds`, then more until `seconds` have passed."""
    contenders = [contender for contender in contenders if not contender.failure]
    calls = {contender.name: calls_per_turn(contender) for contender in contenders}
    start = time.perf_counter()
    done = 0
    while done < rounds or time.perf_counter() - start < seconds:
        for contender in contenders:
            contender.samples.append(turn(contender, calls[contender.name]))
        done += 1
