# SPDX-License-Identifier: Apache-2.0
"""Arrays for the tests of the package, and how they are compared with PyTorch in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import convt

ml_dtypes = pytest.importorskip("ml_dtypes")  # a GPU's machine may lack it
FUNCTIONS = {1: convt.conv_transpose1d, 2: convt.conv_transpose2d, 3: convt.conv_transpose3d}
TORCH = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Of the largest element: some roundings of inputs, which are the same for both, and one of the result.
TOLERANCE = {np.dtype("f4"): 2e-6, np.dtype("f8"): 1e-14, np.dtype("f2"): 2e-3, BFLOAT16: 1.6e-2}


def numbers(shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def double(array):
    return torch.from_numpy(np.ascontiguousarray(array).astype("f8"))


def check(result, expected, dtype):
    expected = expected.numpy()
    assert result.shape == expected.shape
    assert result.dtype == dtype
    scale = max(abs(expected).max(initial=0), 1e-30)
    assert abs(result.astype("f8") - expected).max(initial=0) <= TOLERANCE[np.dtype(dtype)] * scale


def channels_last(array):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def spread(array):
    """The same values with gaps between them, and backwards along the last axis."""
    wide = np.zeros([2 * size for size in array.shape], array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)][..., ::-1]
    view[...] = array
    return view


ARRANGED = {"contiguous": np.ascontiguousarray, "channels_last": channels_last, "spread": spread}
