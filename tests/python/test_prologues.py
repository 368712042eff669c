# SPDX-License-Identifier: Apache-2.0
"""Operations on the input of a convolution, as the functions on arrays take them, against PyTorch in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import convt
from arrays import ARRANGED, BFLOAT16, FUNCTIONS, TORCH, check, double, numbers
from convt import ops

SIZES = {"stride": 2, "padding": 1, "output_padding": 1}


def batch_norm(x, mean, var, *affine):
    return F.batch_norm(x, mean.ravel(), var.ravel(), *affine)


# What is given, what it makes of the input, and which of the operands are given apart. c, d: one value per channel.
PROLOGUES = {
    "one operation": (lambda o: ops.leaky_relu(0.1), lambda x, o: F.leaky_relu(x, 0.1), ""),
    "text": (lambda o: "leaky_relu(0.1) | mul(0.5)", lambda x, o: F.leaky_relu(x, 0.1) * 0.5, ""),
    "blank text": (lambda o: [" ", ops.tanh(), ""], lambda x, o: torch.tanh(x), ""),
    "ones from zeros": (lambda o: [ops.add(1.0)], lambda x, o: x + 1, ""),
    "sigmoid, then exp": (lambda o: (op for op in ("sigmoid", ops.exp())), lambda x, o: torch.exp(torch.sigmoid(x)), ""),
    "operands": (lambda o: [ops.add(o["c"].ravel()), ops.mul(o["d"]), ops.prelu(o["c"])],
                 lambda x, o: F.prelu((x + o["c"]) * o["d"], o["c"].ravel()), ""),
    "given statistics": (lambda o: [ops.batch_norm(o["c"], abs(o["d"]) + 1, o["d"], o["c"]), ops.relu()],
                         lambda x, o: F.relu(batch_norm(x, o["c"], abs(o["d"]) + 1, o["d"].ravel(), o["c"].ravel())), ""),
    "operands apart": (lambda o: ["bias | relu", ops.sub(o["d"]), "mul(channel)"],
                       lambda x, o: (F.relu(x + o["c"]) - o["d"]) * o["d"], "cd"),
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "spread"])
@pytest.mark.parametrize("name", PROLOGUES)
def test_prologue(name, layout):
    """With a chain behind, whose operations have operands at the same positions."""
    prologue, of, apart = PROLOGUES[name]
    x, w = numbers((2, 5, 4, 3)), numbers((5, 4, 3, 3), seed=1)
    o = {"c": numbers((5, 1, 1), seed=2), "d": numbers((5, 1, 1), seed=3)}
    e, f, whole = numbers(4, seed=4), numbers(4, seed=5), numbers((2, 4, 8, 6), seed=6)
    y = F.conv_transpose2d(of(double(x), {key: double(value) for key, value in o.items()}), double(w), double(e), **SIZES)
    y = F.relu(y + double(f).reshape(4, 1, 1)) * double(whole)
    result = convt.conv_transpose2d(ARRANGED[layout](x), w, e, **SIZES, prologue=prologue(o),
                                    epilogue=["add(channel) | relu", ops.mul(whole)], operands=[*(o[key] for key in apart), f])
    assert abs(result.astype("f8") - y.numpy()).max() <= 1e-5 * abs(y).max()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", BFLOAT16])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("single", [False, True])
def test_element_types(dims, dtype, single):
    """What is zero around the image, and between elements that a stride spreads, stays zero."""
    x, w = numbers((1 if single else 3, 6, 4, 3, 5)[:dims + 2], dtype), numbers((6, 4, 4, 3, 3)[:dims + 2], dtype, 1)
    c = numbers(6, dtype, 2)
    before = double(x) * double(c).reshape(6, *[1] * dims) + 2
    expected = TORCH[dims](before, double(w), None, 3, 0, 2)
    result = FUNCTIONS[dims](x[0] if single else x, w, stride=3, output_padding=2, prologue=[ops.mul(c), ops.add(2)])
    check(result[None] if single else result, expected, dtype)


@pytest.mark.parametrize("dtype", ["f2", BFLOAT16, "f8"])
def test_float32_operands(dtype):
    x, w, c = numbers((2, 3, 4), dtype), numbers((3, 4, 2), dtype, 1), numbers(3, "f4", 2)
    var = abs(c) + 1
    result = convt.conv_transpose1d(x, w, prologue=[ops.batch_norm(c, var), ops.add(c)])
    before = batch_norm(double(x), double(c), double(var)) + double(c).reshape(3, 1)
    check(result, F.conv_transpose1d(before, double(w)), dtype)


def test_prologue_of_none():
    x, w = numbers((1, 2, 3)), numbers((2, 3, 2), seed=1)
    expected = convt.conv_transpose1d(x, w)
    for nothing in ("", " ", [], (), [""]):
        assert (convt.conv_transpose1d(x, w, prologue=nothing) == expected).all()


X, W = numbers((1, 2, 4, 4)), numbers((2, 3, 3, 3), seed=1)
WRONG = {
    "add: cannot stand before the convolution.*got add.tensor.*in op 2 of the prologue": {"prologue": ["relu", ops.add(X)]},
    "keep: cannot stand before the convolution": {"prologue": "keep(x)"},
    "mul: cannot stand before the convolution": {"prologue": ops.mul("conv")},
    "layer_norm: cannot stand before the convolution": {"prologue": ops.layer_norm(channels=True)},
    "prologue: column 8: unknown op 'gelo'": {"prologue": ["relu", "gelo"]},
    "operands: prologue.bias.other is missing": {"prologue": "bias"},
    "operands: expected 0": {"prologue": "relu", "operands": [X]},
    "operands: expected 1": {"prologue": ["bias", ops.add(numbers(2))], "operands": [numbers(2), numbers(2)]},
    "prologue.add.other: expected f32 of shape .2,": {"prologue": ops.add(numbers(3))},
    "operands: bias.other is missing": {"prologue": "bias", "epilogue": "bias", "operands": [numbers(2)]},
    "bias.other: expected f32 of shape .3,": {"prologue": "bias", "epilogue": "bias", "operands": [numbers(2), numbers(2)]},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_prologues(message):
    """Each is refused with the argument's name, or in the library's own words, and nothing is written."""
    out = np.full((1, 3, 6, 6), np.nan, np.float32)
    with pytest.raises(convt.ConvtError, match=message) as raised:
        convt.conv_transpose2d(X, W, **WRONG[message], out=out)
    assert raised.value.status == "invalid_argument"
    assert np.isnan(out).all()


def test_what_is_no_operation():
    with pytest.raises(TypeError, match="prologue: expected operations of convt.ops or text .got int"):
        convt.conv_transpose2d(X, W, prologue=[3])
