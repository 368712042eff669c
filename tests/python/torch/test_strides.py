# SPDX-License-Identifier: Apache-2.0
"""Results of convt.torch's functions lie in memory as those of PyTorch's do: in eager calls, in fake ones and in graphs,
also where PyTorch leaves oneDNN for a kernel of its own, which is contiguous."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import convt.torch

FORMATS = {1: None, 2: torch.channels_last, 3: torch.channels_last_3d}
OURS = {dims: getattr(convt.torch, f"conv_transpose{dims}d") for dims in FORMATS}
THEIRS = {dims: getattr(F, f"conv_transpose{dims}d") for dims in FORMATS}


def laid(tensor, dims, last):
    return tensor.to(memory_format=FORMATS[dims]) if last else tensor


def cases(dims, batches=(1, 2), channels=((1, 1), (3, 4), (16, 1), (16, 16)), sizes=(1, 3, 8), kernels=(1, 3)):
    """Inputs and weights in every pair of layouts; small batches are PyTorch's own kernels', others oneDNN's."""
    layouts = itertools.product((False, True), repeat=2) if dims > 1 else [(False, False)]
    for (of_input, of_weight), batch, (c, o), size, kernel in itertools.product(layouts, batches, channels, sizes, kernels):
        yield (laid(torch.randn(batch, c, *[size] * dims), dims, of_input),
               laid(torch.randn(c, o, *[kernel] * dims), dims, of_weight))


@pytest.mark.parametrize("dims", FORMATS)
def test_eager_and_fake(dims):
    for x, w in cases(dims):
        want = THEIRS[dims](x, w).stride()
        assert OURS[dims](x, w).stride() == want, (x.shape, x.stride(), w.shape, w.stride())
        with FakeTensorMode() as mode:
            assert OURS[dims](mode.from_tensor(x), mode.from_tensor(w)).stride() == want


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_compiled(dims, dynamic):
    """In a graph the call asks for PyTorch's layout as well."""
    for x, w in cases(dims, channels=((3, 4), (16, 1)), sizes=(4,), kernels=(3,)):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, w: OURS[dims](x, w, epilogue="relu"), backend="aot_eager", dynamic=dynamic)
        want = THEIRS[dims](x, w)
        got = compiled(x, w)
        assert got.stride() == want.stride(), (x.shape, x.stride(), w.stride())
        torch.testing.assert_close(got, want.relu(), atol=1e-4, rtol=1e-4)
