# SPDX-License-Identifier: Apache-2.0
"""Tables of the results, in Markdown that reads well in a terminal too."""

import math
import re
from pathlib import Path

import bars
from timing import NOISY
from workload import ROOT

DOCUMENT = ROOT / "docs/performance.md"


def table(header, rows):
    """The first column is text, the others are numbers."""
    rows = [list(map(str, row)) for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(header, *rows)]
    lines = [[text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))]
             for row in (header, *rows)]
    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def number(value, unit=""):
    """Three significant digits, but no exponent."""
    if value is None:
        return "-"
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 4)}f}{unit}"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}x"


def marked(entry, ratio):
    """The ratio, with a mark where a contender's times vary too much for their medians to say anything."""
    return times(ratio) + (" ~" if entry.get("noisy") and ratio is not None else "")


def noise(entries):
    """What the mark means, and what the minima say instead."""
    noisy = [entry for entry in entries if entry.get("noisy")]
    if not noisy:
        return []
    minima = ", ".join(f"{entry['name']} {times(entry['ratio_of_minima'])}" for entry in noisy)
    return [f"`~`: a median is over {NOISY} times its minimum, so other programs were running, and the ratio says little. "
            f"Ratios of minima: {minima}."]


def judged(value, bar, form):
    """The value and its bar, e.g. "0.81 (>= 0.75)"; a missed one is marked."""
    if value is None:
        return f"- (>= {bar:g}) MISSED"
    return f"{form(value)} (>= {bar:g}){'' if value >= bar else ' MISSED'}"


# ---- the five problems


def bars_table(problems):
    rows = []
    for entry in problems:
        bar = bars.PROBLEMS[entry["name"]]
        first = judged(entry["ratio_channels_first"], bar.channels_first_peer, times) \
            if bar.channels_first_peer else times(entry["ratio_channels_first"])
        rows.append([entry["name"], number(entry["gflops"]), judged(entry["of_sgemm"], bar.sgemm, "{:.2f}".format),
                     judged(entry["ratio"], bar.peer, lambda ratio, entry=entry: marked(entry, ratio)), first,
                     judged(entry["scaling"], bars.SCALING, times)])
    return table(["problem", "GFLOP/s", "of sgemm's rate", "against best peer",
                  "against best channels-first peer", "against 1 thread"], rows)


def problem_section(entry):
    rows = []
    for contender in entry["contenders"]:
        if contender["failure"]:
            continue
        error = "" if contender["error"] is None else f"{contender['error']:.0e}"
        rows.append([contender["name"], number(contender["median_ms"]), number(contender["min_ms"]),
                     number(contender["gflops"]), "" if contender["name"] == "sgemm" else number(contender["of_sgemm"]),
                     times(contender["slower_than_convt"]) if contender["peer"] else "", error])
    lines = [f"### {entry['name']}", "", f"`{entry['case']}`", "",
             f"{entry['gflop']:.1f} GFLOP needed; convt's engine: {entry['engine']}; {entry['rounds']} rounds.", "",
             table(["contender", "median ms", "min ms", "GFLOP/s", "of sgemm", "time / convt's", "error"], rows)]
    return "\n".join(lines + failures(entry["contenders"]))


def failures(contenders):
    return [f"\n{contender['name']} did not take part: {contender['failure']}" for contender in contenders
            if contender["failure"]]


# ---- the shapes


def shapes_table(shapes):
    rows = []
    for entry in shapes:
        row = {contender["name"]: number(contender["median_ms"]) for contender in entry["contenders"]}
        convt = entry["contenders"][0]
        rows.append([entry["name"], row["convt"], row["PyTorch"],
                     row.get("PyTorch channels_last", "-"), number(entry["gflops"]), marked(entry, entry["ratio"]),
                     "-" if convt["error"] is None else f"{convt['error']:.0e}"])
    return table(["shape", "convt ms", "PyTorch ms", "channels_last ms", "GFLOP/s", "against best peer", "error"], rows)


def shapes_summary(shapes):
    rated = sorted((entry for entry in shapes if entry["ratio"] is not None), key=lambda entry: entry["ratio"])
    if not rated:
        return "No shape could be compared."
    mean = geometric_mean([entry["ratio"] for entry in rated])
    under = [entry for entry in shapes if entry["ratio"] is None or entry["ratio"] < bars.SHAPES_LEAST]
    worst = ", ".join(f"{entry['name']} {times(entry['ratio'])}" for entry in rated[:5])
    lines = [f"- geometric mean over {len(rated)} shapes of the best peer's time against convt's: "
             f"{judged(mean, bars.SHAPES_MEAN, times)}",
             f"- under {bars.SHAPES_LEAST}x: {len(under)}{' MISSED' if under else ''}",
             f"- the worst: {worst}"]
    for entry in shapes:
        lines += [f"- {entry['name']}: {line.strip()}" for line in failures(entry["contenders"])]
    return "\n".join(lines)


# ---- the whole


def render(results):
    parts = ["\n".join(f"- {name}: {value}" for name, value in results["machine"].items())]
    if results["problems"]:
        parts += ["## The five problems", bars_table(results["problems"]), *noise(results["problems"]),
                  *map(problem_section, results["problems"])]
    if results["shapes"]:
        parts += ["## Shapes of real models", shapes_summary(results["shapes"]), shapes_table(results["shapes"]),
                  *noise(results["shapes"])]
    return "\n\n".join(parts) + "\n"


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def record(text, section, document=DOCUMENT):
    """Puts the text between the section's markers in the document, and leaves everything else alone."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    old = Path(document).read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    assert pattern.search(old), f"{document} lacks the markers of '{section}'"
    Path(document).write_text(pattern.sub(lambda _: f"{begin}\n\n{text}\n{end}", old), encoding="utf-8")
