# SPDX-License-Identifier: Apache-2.0
"""Tables of the GPU's results, in Markdown that reads well in a terminal too."""

from report import failures, geometric_mean, number, table, times

PEERS = ("PyTorch", "cudnn.benchmark", "channels_last", "torch.compile")


def exponent(value):
    return "-" if value is None else f"{value:.1e}"


def peers_in(entries):
    """Those of PyTorch's modes that took part in some entry."""
    names = {contender["name"] for entry in entries for contender in entry["contenders"]}
    return [name for name in PEERS if name in names]


def best_error(contenders):
    return min((contender["error"] for contender in contenders if contender["peer"] and contender["error"] is not None),
               default=None)


def row(entry, first, names):
    by_name = {contender["name"]: contender for contender in entry["contenders"]}
    convt = by_name["convt"]
    host = "-" if convt["host_us"] is None else f"{convt['host_us']:.0f}"
    return [*first, f"{number(entry['floor_ms'])} {entry['floor_by']}", number(convt["median_ms"]),
            number(entry["of_floor"]), *(times(by_name[name]["slower_than_convt"]) if name in by_name else "-"
                                         for name in names), times(entry["ratio"]),
            exponent(convt["error"]), exponent(best_error(entry["contenders"])), host]


def entries_table(entries, names, heading, first):
    header = [*heading, "floor ms", "convt ms", "time / floor", *(f"against {name}" for name in names),
              "against best", "error", "PyTorch's error", "host us"]
    return table(header, [row(entry, first(entry), names) for entry in entries])


def summary(entries):
    """What the entries of one mode say together."""
    ratios = sorted((entry["ratio"], f"{entry['name']} {entry['mode']}") for entry in entries if entry["ratio"] is not None)
    floors = [entry["of_floor"] for entry in entries if entry["of_floor"] is not None]
    lines = []
    if floors:
        lines.append(f"- geometric mean of time / floor over {len(floors)}: {number(geometric_mean(floors))}")
    if ratios:
        mean = geometric_mean([ratio for ratio, _ in ratios])
        worst = ", ".join(f"{name} {times(ratio)}" for ratio, name in ratios[:5])
        lines += [f"- geometric mean of the best of PyTorch's modes against convt over {len(ratios)}: {times(mean)}",
                  f"- the worst: {worst}"]
    for entry in entries:
        lines += [f"- {entry['name']} {entry['mode']}: {line.strip()}" for line in failures(entry["contenders"])]
    return "\n".join(lines)


def render(results):
    parts = ["\n".join(f"- {name}: {value}" for name, value in results["machine"].items())]
    if results["problems"]:
        entries = results["problems"]
        parts += ["## The five problems on a GPU",
                  entries_table(entries, peers_in(entries), ["problem", "mode"],
                                lambda entry: [entry["name"], entry["mode"]]),
                  summary(entries)]
    for mode in dict.fromkeys(entry["mode"] for entry in results["shapes"]):
        entries = [entry for entry in results["shapes"] if entry["mode"] == mode]
        parts += [f"## Shapes of real models on a GPU, {mode}", summary(entries),
                  entries_table(entries, peers_in(entries), ["shape"], lambda entry: [entry["name"]])]
    return "\n\n".join(parts) + "\n"
