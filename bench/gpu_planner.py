# SPDX-License-Identifier: Apache-2.0
"""The planner on a GPU: predicted times against measured ones, and what it would gain to choose another candidate. Each
chain of chains.txt behind each layer of gpu_chains.py, and the shapes of shapes.txt; every accepted candidate is
forced, checked and timed."""

import copy
import dataclasses
import re

import torch

import gpu_chains
import gpu_timing
import ours
from modes import MODES, with_mode
from report import geometric_mean, number, table, times
from timing import log, prepared
from workload import Workload, convt_abi, read_shapes

MODES_HERE = ("tf32", "bf16")
ROUNDS = 3
NEAR, CLOSE = 1.6, 1.1  # bars: measured and predicted times, and the choice and the fastest candidate, are this near
WORST = 5
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
ACCEPTED = re.compile(r"^ +(\S.*?) +accepts, predicts (\S+) (us|ms|s)$", re.MULTILINE)
CHOSEN = re.compile(r"^  chosen +(\S.*)$", re.MULTILINE)


def candidates_of(explanation):
    """The name of the chosen candidate, and {name: predicted seconds} of all that accept."""
    accepted = {name: float(value) * UNITS[unit] for name, value, unit in ACCEPTED.findall(explanation)}
    return CHOSEN.search(explanation).group(1), accepted


def cases():
    """(layer, kind, text) of every combination."""
    for layer, text in gpu_chains.LAYERS.items():
        for kind, chain in gpu_chains.read_chains():
            yield layer, kind, f"{text} | {chain}"
    for name, text in read_shapes().items():
        yield name, "shapes", text


def forced(workload, name, before):
    """The same tensors through that candidate."""
    own = copy.copy(workload)
    own.plan = convt_abi.Plan(workload.text, engine=name, gpu=workload.device.index)
    return dataclasses.replace(ours.plan(own, before), name=name)


def measured(contenders, least):
    """Times all candidates, or nothing if the first, which was chosen, takes less than `least` seconds."""
    chosen = [contender for contender in contenders[:1] if not contender.failure]
    gpu_timing.measure(chosen, 1, 0)
    if not chosen or chosen[0].median < least:
        return False
    chosen[0].samples.clear()
    gpu_timing.measure(contenders, ROUNDS, 0)
    return True


def run_case(layer, kind, text, mode, options, check):
    workload = Workload("planner", with_mode(text, mode), gpu=options.gpu)
    chosen, accepted = candidates_of(workload.plan.explain())
    names = [chosen, *(name for name in accepted if name != chosen)]
    before = ours.precision(MODES[mode][1])
    contenders = [prepared(name, forced, workload, name, before) for name in names]
    entry = {"layer": layer, "kind": kind, "mode": mode, "case": workload.text, "chosen": chosen, "candidates": []}
    check(workload, contenders, mode)
    entry["small"] = not measured(contenders, options.least_us * 1e-6) and not contenders[0].failure
    for contender in contenders:
        entry["candidates"].append({"name": contender.name, "predicted_ms": 1e3 * accepted[contender.name],
                                    "ms": 1e3 * contender.median if contender.ran else None,
                                    "error": contender.error, "failure": contender.failure})
    return judged(entry)


def judged(entry):
    """Adds what the bars are about: the chosen candidate's measured time over the predicted one and the fastest's."""
    chosen = entry["candidates"][0]
    ran = [candidate["ms"] for candidate in entry["candidates"] if candidate["ms"] is not None]
    usable = not entry["small"] and chosen["ms"] is not None
    entry["of_predicted"] = chosen["ms"] / chosen["predicted_ms"] if usable else None
    entry["regret"] = chosen["ms"] / min(ran) if usable else None
    return entry


def run(options, check):
    modes = [mode for mode in options.dtype if mode in MODES_HERE]
    entries = []
    for mode in modes:
        for layer, kind, text in cases():
            if not re.search(options.only, f"{layer} {kind}: {text}"):
                continue
            try:
                entry = run_case(layer, kind, text, mode, options, check)
            except convt_abi.ConvtError as error:
                log(f"{layer} {mode} {text}: {error}")
                continue
            failures = "".join(f"; {one['name']}: {one['failure']}" for one in entry["candidates"] if one["failure"])
            log(f"{layer} {mode} {text}: {times(entry['of_predicted'])} of the predicted time, "
                f"{times(entry['regret'])} of the fastest of {len(entry['candidates'])}{failures}")
            entries.append(entry)
            torch.cuda.empty_cache()
    return entries


def failed(entry):
    return any(candidate["failure"] for candidate in entry["candidates"])


def share(values, most):
    return f"{100 * sum(value <= most for value in values) / len(values):.0f} %"


def distance(ratio):
    """How far a ratio is from 1, up or down."""
    return max(ratio, 1 / ratio)


def row(name, entries):
    ratios, regrets = [entry["of_predicted"] for entry in entries], [entry["regret"] for entry in entries]
    return [name, len(entries), number(geometric_mean(ratios)), share(list(map(distance, ratios)), NEAR),
            number(min(ratios)), number(max(ratios)), share(regrets, CLOSE), number(geometric_mean(regrets)),
            number(max(regrets))]


def chain_of(entry):
    return entry["case"].partition(" | ")[2] or "no chain"


def worst(entries, key):
    return [f"{number(entry[key])}: {entry['layer']} {entry['mode']}, {chain_of(entry)}; {entry['chosen']}"
            for entry in sorted(entries, key=lambda entry: -distance(entry[key]))[:WORST]]


def render(entries):
    own = [entry for entry in entries if entry["regret"] is not None]
    failures = [f"- {entry['layer']} {entry['mode']} {entry['case']}: {candidate['name']}: {candidate['failure']}"
                for entry in entries for candidate in entry["candidates"] if candidate["failure"]]
    lines = ["## Failures", *failures, ""] if failures else []
    if not own:
        return "\n".join([*lines, "nothing was measured"])
    lines += ["## Measured / predicted, the farthest", *(f"- {line}" for line in worst(own, "of_predicted")), "",
              "## The choice / the fastest candidate, the worst", *(f"- {line}" for line in worst(own, "regret")), ""]
    groups = [(f"{mode}, {kind}", [entry for entry in own if (entry["mode"], entry["kind"]) == (mode, kind)])
              for mode in dict.fromkeys(entry["mode"] for entry in own)
              for kind in dict.fromkeys(entry["kind"] for entry in own)]
    rows = [row(name, group) for name, group in [*groups, ("all", own)] if group]
    lines.append(table(["cases", "number", "measured / predicted", f"within {NEAR:g}x", "least", "most",
                        f"choice within {100 * (CLOSE - 1):.0f} %", "choice / fastest", "most"], rows))
    small = sum(entry["small"] for entry in entries)
    lines.append(f"\n{small} smaller cases were left out." if small else "")
    return "\n".join(lines)
