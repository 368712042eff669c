#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden data: small cases with the results that PyTorch gives for them in float64.

  cases.txt      one case per line: seed, fill and text, separated by tabs; lines that begin with # are comments
  expected.bin   the results of all cases, in that order: float64, little-endian, in the memory order of each output's
                 layout, not rounded to its dtype

A case's data follow from its seed and fill. Element i, in memory order, of tensor t (0 input, 1 kernel, 2 and up the
chain's operands) comes from 64 bits z, all sums and products modulo 2^64:
  z = seed*0x9E3779B97F4A7C15 + (t+1)*0xBF58476D1CE4E5B9 + i*0x94D049BB133111EB
  z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9;  z ^= z >> 27;  z *= 0x94D049BB133111EB;  z ^= z >> 31
  u = (z >> 11) * 2^-53
  fill signed: 2u - 1;  unit: u;  special: 2u - 1, but NaN, +Inf, -Inf where z % 64 is 0, 1, 2 (never in the kernel)
  whatever the fill: 0.5 + u in an operand named *.var; 0.5 + u with the sign of 2u - 1 in one named div.other
and is rounded to the tensor's dtype.

Without arguments, writes both files anew; with --check, computes the results of the stored cases and compares them with
the stored ones."""

import argparse
import itertools
import subprocess
import sys
from math import gcd
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import convt_abi  # noqa: E402
import oracle  # noqa: E402

CASES, EXPECTED = HERE / "cases.txt", HERE / "expected.bin"
DTYPES = ["f32", "f64", "f16", "bf16"]
LAYOUTS = ["channels_first", "channels_last", "channels_first->channels_last", "channels_last->channels_first"]
FIVE_CHAINS = [(2, ""), (3, ""), (3, "bias | max_pool(2) | max_pool(3) | sum"),
               (3, "layer_norm(channels) | gelu | mul(0.75)"),
               (3, "add(-1.25) | layer_norm(channels) | avg_pool(2) | gelu")]
RANDOM = {"seed": 7, "cases": 400}  # of `convt verify --list`; the small ones are taken
MAX_RANDOM_ELEMENTS = 200
# A case takes another seed when rounding errors of float64 inside its chain could move its result by more than this
# fraction of its largest element: then PyTorch's own result depends on the machine.
MAX_DOUBT = 3e-14


def axes(sizes):
    return "x".join(map(str, sizes)) if isinstance(sizes, (tuple, list)) else str(sizes)


def case(dims, chain="", prologue="", **fields):
    """Text of a case, e.g. case(2, "relu", channels="1->2", input=(3, 4), kernel=3)."""
    head = " ".join([f"conv_transpose{dims}d", *(f"{key}={axes(value)}" for key, value in fields.items())])
    return " | ".join(filter(None, (prologue, head, chain)))


def examples(dims=3):
    """Every use of every op that the library's own descriptions show, but those that need more dimensions."""
    lines = [line for op in convt_abi.ops() for line in op["examples"].splitlines()]
    return [line for line in lines if (oracle.parse_op(line).parameters.get("trailing") or 0) <= dims + 1]


# A small convolution in each number of dimensions, with sizes for which every example is legal.
SMALL = {1: {"channels": "3->6", "input": 4, "kernel": 4, "stride": 2, "padding": 1, "output_padding": 1},
         2: {"channels": "2->6", "input": (3, 4), "kernel": 3, "stride": (2, 1), "padding": (0, 1)},
         3: {"channels": "2->6", "input": (2, 3, 2), "kernel": (3, 1, 4), "stride": (1, 1, 2), "padding": (0, 0, 1)}}


def geometry():
    """Convolutions alone, in awkward sizes."""
    for dims in (1, 2, 3):
        last = lambda value, other: (other,) * (dims - 1) + (value,)  # noqa: E731
        yield case(dims, channels="1->1", input=1, kernel=1)
        yield case(dims, batch=0, channels="2->3", input=2, kernel=2)
        yield case(dims, channels="1->1", input=2, kernel=2, stride=2)
        yield case(dims, batch=3, channels="1->1", input=1, kernel=3, stride=5, padding=1)
        yield case(dims, channels="7->5", input=last(7, 2), kernel=last(5, 3), stride=last(3, 2), padding=1)
        yield case(dims, channels="5->3", input=last(11, 1), kernel=last(7, 2), stride=last(5, 3))
        yield case(dims, channels="2->3", input=3, kernel=1, stride=3)
        yield case(dims, channels="2->3", input=last(4, 2), kernel=2, stride=4, output_padding=3)
        yield case(dims, channels="3->2", input=last(2, 1), kernel=last(9, 4))
        yield case(dims, channels="2->2", input=1, kernel=last(8, 3), stride=3, padding=1)
        yield case(dims, channels="3->4", input=last(4, 2), kernel=3, stride=last(2, 1), padding=last(4, 0))
        yield case(dims, channels="2->2", input=4, kernel=3, stride=2, padding=4)
        yield case(dims, channels="2->2", input=last(5, 2), kernel=last(4, 1), padding=last(3, 0))
        yield case(dims, channels="3->3", input=last(5, 2), kernel=3, groups=3)
        yield case(dims, channels="4->4", input=last(5, 2), kernel=2, stride=2, groups=4, output_padding=1)
        yield case(dims, channels="3->6", input=last(4, 2), kernel=3, stride=2, padding=1, groups=3)
        yield case(dims, channels="6->3", input=last(4, 2), kernel=2, padding=last(1, 0), groups=3)
        yield case(dims, batch=2, channels="4->6", input=last(3, 2), kernel=3, dilation=2, groups=2)
        yield case(dims, channels="1->9", input=last(3, 2), kernel=2)
        yield case(dims, channels="9->1", input=last(3, 2), kernel=2)
        yield case(dims, channels="16->17", input=1, kernel=last(2, 1))
        yield case(dims, channels="2->2", input=last(3, 2), kernel=2, dilation=last(5, 2), padding=last(3, 0))
        yield case(dims, channels="2->2", input=2, kernel=2, stride=2, dilation=3, output_padding=2)
        yield case(dims, channels="1->2", input=2, kernel=2, stride=1, dilation=4, output_padding=last(3, 1))
        yield case(dims, channels="2->1", input=2, kernel=1, stride=1, dilation=3, output_padding=2)
    for stride, dilation, kernel in itertools.product((1, 2, 3, 4, 6), (1, 2, 3, 4, 6), (2, 3)):
        if kernel == 2 or gcd(stride, dilation) > 1:
            limit = max(stride, dilation)
            yield case(1, channels="2->3", input=4, kernel=kernel, stride=stride, dilation=dilation,
                       padding=(stride + dilation) % 3, output_padding=(limit - 1) * (kernel % 2))
    yield case(2, batch=2, channels="2->3", input=(3, 4), kernel=(2, 3), stride=(2, 4), dilation=(4, 2),
               output_padding=(3, 1), padding=(1, 2))
    yield case(2, channels="2->3", input=(1, 6), kernel=(5, 1), stride=(3, 2), padding=(2, 0))
    yield case(2, channels="3->2", input=(5, 1), kernel=(1, 6), stride=(1, 7), padding=(0, 2), output_padding=(0, 6))
    yield case(3, channels="2->2", input=(2, 1, 3), kernel=(1, 3, 2), stride=(4, 1, 2), dilation=(1, 2, 4),
               output_padding=(3, 1, 2), padding=(0, 1, 2))
    yield case(3, channels="2->3", input=(1, 2, 3), kernel=(3, 2, 1), stride=(1, 2, 3), padding=(1, 0, 0))


def layouts():
    """Every pair of layouts, with operands that have a layout and that have none."""
    for dims, layout, (i, chain) in itertools.product((1, 2, 3), LAYOUTS, enumerate(
            ("", "add(tensor) | bias", "layer_norm(trailing=2, affine) | mul(tensor, dtype=f32)",
             "max_pool(2, stride=1) | sub(tensor) | softmax"))):
        yield case(dims, chain, dtype=DTYPES[(i + len(layout)) % 4], layout=layout, batch=2, **SMALL[dims] |
                   {"channels": "2->3"})


def ops():
    """Every example in every number of dimensions, and on large numbers."""
    for dims in (1, 2, 3):
        for example in examples(dims):
            yield case(dims, example, **SMALL[dims])
    for i, (example, scale) in enumerate(itertools.product(filter(is_over_x_alone, examples()), (30, 1000))):
        yield case(1, f"mul({scale}) | {example}", **SMALL[1] | {"dtype": DTYPES[i % 2]})


def is_over_x_alone(example):
    """Whether an op takes neither operands nor windows."""
    op = oracle.parse_op(example)
    return oracle.vocabulary()[op.name][2] - set(op.parameters) <= {"x", "F", "torch"}


def pools():
    """Options of pools, above all the corners of ceil."""
    lengths, sizes, strides = (1, 2, 4, 5, 7), (1, 2, 3, 4), (1, 2, 3, 5)
    for i, (length, size, stride, ceil) in enumerate(itertools.product(lengths, sizes, strides, ("", ", ceil"))):
        padding = size // 2 * (i // 2 % 2)
        room = length + 2 * padding - size
        if (room < 0 and not ceil) or room <= -stride or (ceil and room % stride == 0):
            continue
        options = f"{size}, stride={stride}, padding={padding}{ceil}"
        conv = {"channels": "1->2", "input": length, "kernel": 1}
        yield case(1, f"max_pool({options})", **conv)
        yield case(1, f"avg_pool({options}{', count_include_pad=false' * (i // 4 % 2)})", **conv)
    for pool in ("max_pool", "avg_pool"):
        for options in ("3x2, stride=1x2, padding=1x0", "2x3, stride=3x2, padding=0x1, ceil", "1x4, stride=2x1",
                        "4x3, stride=3, padding=2x1, ceil", "2x1", "3, ceil"):
            yield case(2, f"{pool}({options})", channels="2->2", input=(4, 5), kernel=2)
        for options in ("1x2x3", "2x1x2, stride=1x2x3, ceil", "3, stride=2, padding=1x1x0, ceil",
                        "3x2x1, padding=1x0x0", "2x4x2, stride=2, padding=1x2x0",
                        "4x3x2, stride=3x2x4, padding=2x1x1, ceil"):
            yield case(3, f"{pool}({options})", channels="1->2", input=(2, 3, 4), kernel=2)
    for options in ("3, stride=2, padding=1, ceil, count_include_pad=false", "4, stride=4, padding=2",
                    "2x3x4, stride=2, padding=1x1x2, count_include_pad=false"):
        yield case(3, f"avg_pool({options})", channels="1->2", input=(2, 3, 3), kernel=(2, 1, 1))
    yield case(2, "max_pool(2) | avg_pool(2, stride=1) | global_avg_pool", channels="2->3", input=5, kernel=2)
    yield case(3, "global_avg_pool | layer_norm(channels, affine) | silu", batch=2, channels="2->5", input=2, kernel=2)


def norms():
    """Every region, affine or not, over few and many elements."""
    for dims in (1, 2, 3):
        regions = ["layer_norm(channels{})", *(f"layer_norm(trailing={k}{{}})" for k in range(1, dims + 2)),
                   *(f"group_norm({g}{{}})" for g in (1, 2, 3, 6)), "instance_norm({})", "batch_norm({})"]
        for region, options in itertools.product(regions, ("", "affine", "affine, eps=0.1, dtype=f32")):
            separator = ", " if "(" + "{" not in region and options else ""
            yield case(dims, region.format(separator + options).replace("()", ""), batch=2, **SMALL[dims] |
                       {"kernel": 2, "padding": 0, "output_padding": 0, "stride": 1, "input": (2,) * dims})
        for norm in ("layer_norm(channels, affine)", "layer_norm(trailing=1)", "group_norm(1)", "instance_norm(affine)",
                     "batch_norm(affine)"):
            yield case(dims, f"{norm} | add(0.5)", batch=2, channels="2->1", input=1, kernel=1)
    yield case(2, "mul(0.001) | layer_norm(channels)", channels="2->5", input=3, kernel=2)
    yield case(2, "add(10) | layer_norm(channels)", channels="2->5", input=3, kernel=2)
    yield case(1, "group_norm(2) | instance_norm | layer_norm(channels)", channels="2->6", input=5, kernel=3)


def five():
    """The chains of the five named problems, in odd sizes, each dtype."""
    plane = [{"channels": "3->5", "input": 4, "kernel": (3, 7)},
             {"channels": "2->7", "input": 3, "kernel": (1, 5), "stride": (2, 3), "padding": (0, 2)},
             {"channels": "3->6", "input": (5, 2), "kernel": (2, 3), "dilation": 2, "output_padding": 1, "groups": 3}]
    volume = [{"channels": "3->5", "input": (2, 3, 2), "kernel": 3, "stride": 2, "padding": 1, "output_padding": 1},
              {"channels": "2->7", "input": (3, 4, 2), "kernel": 4, "stride": (2, 1, 2), "padding": (1, 2, 1)},
              {"channels": "3->6", "input": (4, 1, 2), "kernel": (2, 5, 3), "stride": (1, 2, 3), "padding": (1, 1, 0)}]
    pooled = [{"channels": "3->5", "input": (4, 5, 4), "kernel": 5, "stride": 2, "padding": 2},
              {"channels": "2->7", "input": (3, 4, 3), "kernel": 4, "stride": (2, 1, 2), "padding": (1, 0, 1)},
              {"channels": "1->3", "input": (7, 4, 5), "kernel": (2, 5, 3), "stride": (1, 2, 3), "padding": (1, 2, 0)}]
    for (dims, chain), dtype, i in itertools.product(FIVE_CHAINS, DTYPES, range(3)):
        sizes = plane if dims == 2 else pooled if "max_pool" in chain else volume
        yield case(dims, chain, dtype=dtype, batch=1 + i % 2, **sizes[i])


def mixed_operands():
    """float32 operands beside tensors of another dtype."""
    for dtype, example in itertools.product(("f16", "bf16", "f64"), [e for e in examples() if "dtype=f32" in e]):
        for i, layout in enumerate(LAYOUTS[:2]):
            yield case(1 + (len(example) + i) % 2, example, dtype=dtype, layout=layout,
                       **SMALL[1 + (len(example) + i) % 2])


def long_chains():
    for dtype in DTYPES:
        yield case(2, "bias | relu | batch_norm(affine) | add(conv) | mul(conv) | gelu(tanh) | sub(conv)", dtype=dtype,
                   batch=2, channels="3->4", input=3, kernel=3, stride=2, padding=1)
        yield case(1, "softmax | mul(conv) | sum | add(tensor) | tanh | div(channel) | mish", dtype=dtype,
                   channels="3->5", input=6, kernel=3)
        yield case(3, "instance_norm(affine) | leaky_relu(0.2) | max_pool(2) | bias | hardswish | mean | softplus",
                   dtype=dtype, channels="2->4", input=3, kernel=2, stride=2)
        yield case(2, "max | min | sub(0.25) | clamp(-0.5, 0.5) | global_avg_pool", dtype=dtype, channels="3->4",
                   input=4, kernel=3)
        yield case(1, "mul(1e6) | bias", dtype=dtype, channels="2->3", input=5, kernel=3)
        yield case(1, "mul(1e-7)", dtype=dtype, channels="2->3", input=5, kernel=3)
        yield case(1, "mul(1e-40) | add(0)", dtype=dtype, channels="2->3", input=5, kernel=3)
    yield case(1, "mul(3e38)", dtype="bf16", channels="2->3", input=5, kernel=3)
    yield case(1, "mul(3e38)", dtype="f32", channels="2->3", input=5, kernel=3)


def kept():
    """Kept values, of the running value's shape and broadcast, and reductions over any axes."""
    chains = ["bias | keep(a) | hardswish | mul(a)", "keep(a) | mean | sub(a)", "keep(a) | relu | keep(b) | mul(a) | add(b)",
              "bias | keep(x) | mean(axes=w) | sigmoid | mul(x)", "keep(x) | max | keep(m) | mul(x) | sum(axes=w) | add(m)",
              "keep(x) | sum(axes=cw) | add(x) | tanh", "keep(x) | max_pool(3, stride=1, padding=1) | sub(x)",
              "instance_norm | keep(x) | mean(axes=cw) | mul(x)", "keep(x) | instance_norm(affine) | add(x)",
              "softmax(axes=w) | keep(a) | log_softmax(axes=cw) | mul(a)", "abs | logsumexp(axes=cw) | mul(3)"]
    for (i, chain), dims in itertools.product(enumerate(chains), (1, 2, 3)):
        yield case(dims, chain, dtype=DTYPES[(i + dims) % 4], batch=2, **SMALL[dims])
    for i, op in enumerate(("log", "sqrt", "pow(-1)", "pow(-2.5)", "pow(0.5)", "pow(-4)", "exp")):  # away from 0
        yield case(1 + i % 3, f"abs | add(0.5) | {op}", batch=2, **SMALL[1 + i % 3])
    for op in ("sum", "mean", "max", "min", "softmax", "log_softmax", "logsumexp"):
        for dims, axes_ in ((1, "w"), (2, "h"), (2, "hw"), (2, "ch"), (3, "d"), (3, "dw"), (3, "dhw"), (3, "cdhw"), (3, "ch")):
            yield case(dims, f"relu | {op}(axes={axes_})", batch=2, **SMALL[dims])


def may_precede(example):
    """Whether an op may stand before a convolution: the library says."""
    try:
        convt_abi.Plan(case(1, prologue=example, channels="2->2", input=2, kernel=1))
        return True
    except convt_abi.ConvtError:
        return False


def prologues():
    """Every example that may stand before a convolution, before ones that see what is outside the image at each border
    and between inputs; and ranges of channels."""
    for dims in (1, 2, 3):
        for example in filter(may_precede, examples(dims)):
            yield case(dims, prologue=example, **SMALL[dims])
    for i, prologue in enumerate(("add(1)", "sigmoid", "batch_norm(affine) | leaky_relu(0.1)", "bias | softplus | sub(3)",
                                  "prelu | mul(channel, dtype=f32)", "mul(2) | add(-0.5) | div(4) | clamp(-0.25, 0.75)")):
        last = lambda value, other: (other,) * (i % 3) + (value,)  # noqa: E731
        dims = 1 + i % 3
        yield case(dims, "bias | gelu", prologue, channels="3->4", input=last(5, 2), kernel=last(7, 3))
        yield case(dims, "", prologue, channels="2->3", input=3, kernel=1, stride=3, output_padding=2)
        yield case(dims, "relu", prologue, batch=2, channels="4->6", input=last(3, 2), kernel=3, dilation=2, groups=2,
                   padding=1)
        yield case(dims, "layer_norm(channels)", prologue, channels="2->4", within="5->7", input=last(4, 2), kernel=2)
    for dims, layout in itertools.product((1, 2, 3), LAYOUTS):
        yield case(dims, "add(tensor) | bias", layout=layout, batch=2, **SMALL[dims] |
                   {"channels": "2->3", "within": "3->5"})
        yield case(dims, "sum", layout=layout, batch=2, **SMALL[dims] | {"channels": "3->2", "within": "4->2"})


def special():
    """NaN and Inf in the data."""
    for dims, dtype in itertools.product((1, 2, 3), DTYPES):
        yield case(dims, dtype=dtype, **SMALL[dims])
        yield case(dims, dtype=dtype, channels="2->3", input=4, kernel=(2,) * dims, stride=3, padding=1)
    for i, example in enumerate(examples()):
        dims = next(d for d in (1 + i % 3, 2, 3) if example in examples(d))
        yield case(dims, example, batch=3 if dims == 1 else 1, **SMALL[dims] | {"channels": "1->6"})
    for example in filter(may_precede, filter(is_over_x_alone, examples(1))):
        yield case(1, prologue=example, batch=3, **SMALL[1] | {"channels": "1->6"})
    for i, (dims, chain) in enumerate(FIVE_CHAINS[2:]):
        yield case(dims, chain, dtype=DTYPES[i], channels="2->4", input=3, kernel=3, stride=2)


def with_dtype(text, index):
    at = text.index(" ", text.index("conv_transpose"))
    return text if " dtype=" in text else f"{text[:at]} dtype={DTYPES[index % 4]}{text[at:]}"


def with_layout(text, index):
    at = text.index(" ", text.index("conv_transpose"))
    return text if " layout=" in text else f"{text[:at]} layout={LAYOUTS[index // 4 % 4]}{text[at:]}"


def random_cases():
    command = [convt_abi.COMMAND, "verify", "--list", "--seed", str(RANDOM["seed"]), "--cases", str(RANDOM["cases"])]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.strip() for line in listing.splitlines() if "conv_transpose" in line]


def all_cases():
    """Triples of a group's name, fill and text; dtypes and layouts that a text leaves open take turns."""
    groups = [("geometry", geometry), ("layouts", layouts), ("ops", ops), ("pools", pools), ("norms", norms),
              ("the five problems", five), ("mixed operands", mixed_operands), ("long chains", long_chains),
              ("kept values and axes", kept), ("prologues and ranges", prologues), ("special values", special)]
    seen = set()
    for name, make in groups:
        for index, text in enumerate(make()):
            text = with_dtype(text, index)
            if name in ("ops", "pools", "norms", "kept values and axes"):
                text = with_layout(text, index)
            text = convt_abi.Plan(text).text
            fill = "special" if name.startswith("special") else "unit" if "div(conv)" in text else "signed"
            if (text, fill) not in seen:
                seen.add((text, fill))
                yield name, fill, text
    for text in random_cases():
        if np.prod(convt_abi.Plan(text).output.shape) <= MAX_RANDOM_ELEMENTS and (text, "signed") not in seen:
            yield "random", "unit" if "div(conv)" in text else "signed", text


def expected_of(text, seed, fill):
    result = oracle.evaluate(text, seed, fill)
    output = result.output
    if result.case.output_layout == "channels_last":
        output = np.moveaxis(output, 1, -1)
    return result.output, np.ascontiguousarray(output).ravel().astype("<f8")


def well_conditioned(text, seed, fill):
    output, flat = expected_of(text, seed, fill)
    moved, meaningless = oracle.doubt(text, seed, fill, output)
    return flat if moved <= MAX_DOUBT * oracle.largest(output) and not meaningless.any() else None


def write():
    lines, blocks, group = ["# seed\tfill\tcase; see generate.py"], [], None
    for number, (name, fill, text) in enumerate(all_cases(), start=1):
        for seed in range(number, number + 30000, 10000):
            flat = well_conditioned(text, seed, fill)
            if flat is not None:
                break
        else:
            print(f"left out, ill-conditioned with each of its seeds: {fill} {text}")
            continue
        if name != group:
            lines.append(f"# {name}")
            group = name
        lines.append(f"{seed}\t{fill}\t{text}")
        blocks.append(flat)
    CASES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    EXPECTED.write_bytes(np.concatenate(blocks).tobytes())
    print(f"{len(blocks)} cases, {(CASES.stat().st_size + EXPECTED.stat().st_size) / 1e6:.2f} MB")


def stored_cases():
    """Triples of seed, fill and text."""
    rows = [line.split("\t") for line in CASES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(int(seed), fill, text) for seed, fill, text in rows]


def check():
    """Messages about stored results that PyTorch does not give today."""
    stored, at, bad = np.frombuffer(EXPECTED.read_bytes(), "<f8"), 0, []
    for seed, fill, text in stored_cases():
        _, flat = expected_of(text, seed, fill)
        kept = stored[at:at + flat.size]
        at += flat.size
        if kept.size != flat.size or not np.allclose(kept, flat, rtol=0, atol=1e-13 * oracle.largest(flat),
                                                     equal_nan=True):
            bad.append(f"stored result differs: seed {seed}, {fill}: {text}")
    if at != stored.size:
        bad.append(f"expected.bin holds {stored.size} numbers, the cases make {at}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the stored results with PyTorch's")
    if not parser.parse_args().check:
        write()
        return 0
    bad = check()
    print(*bad, f"{len(stored_cases())} cases, {len(bad)} differ", sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
