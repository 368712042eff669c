# SPDX-License-Identifier: Apache-2.0
"""What is cut off behind a convolution, as paddings of one that never makes it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import convt.torch
from convt.torch.compile.crops import folded

pytest.importorskip("hypothesis")  # a GPU's machine may lack it
from hypothesis import assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

small = st.integers(0, 4)


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(1, 6), kernel=st.integers(1, 6), stride=st.integers(1, 4), padding=small, output_padding=small,
    dilation=st.integers(1, 3), crop=st.tuples(small, small))
def test_folded(size, kernel, stride, padding, output_padding, dilation, crop):
    limit = max(stride, dilation)
    whole = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
    assume(output_padding < limit and whole - sum(crop) >= 1)
    paddings = folded((crop,), ("bias", "relu"), (padding,), (output_padding,), (limit,))
    more = output_padding + crop[0] - crop[1]
    if isinstance(paddings, str):
        assert not 0 <= more < limit
        return
    assert paddings == ((padding + crop[0],), (more,))
    x, w, b = torch.randn(2, 3, size).double(), torch.randn(3, 4, kernel).double(), torch.randn(4).double()
    want = F.conv_transpose1d(x, w, b, stride, padding, output_padding, 1, dilation).relu()
    got = convt.torch.conv_transpose1d(
        x, w, b, stride, paddings[0], paddings[1], 1, dilation, epilogue="relu")
    torch.testing.assert_close(got, want[..., crop[0] : whole - crop[1]])


def test_what_sees_more_than_one_element_is_not_folded():
    for op in ("instance_norm", "max_pool(2)", "add(tensor)", "mean(axes=w)", "softmax(axes=w)", "add(conv)", "keep(a)"):
        assert isinstance(folded(((1, 1),), ("bias", op), (0,), (0,), (2,)), str), op
    for op in ("gelu", "mul(channel)", "batch_norm(affine)", "snake"):
        assert folded(((1, 1),), ("bias(dtype=f32)", op), (0,), (0,), (2,)) == ((1,), (0,)), op
