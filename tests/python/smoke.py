# SPDX-License-Identifier: Apache-2.0
"""Does an installed package work? Needs NumPy alone; with --torch, PyTorch too. tools/wheel runs it."""

import sys
import time

start = time.perf_counter()
import convt  # noqa: E402

taken = time.perf_counter() - start
assert "numpy" not in sys.modules and "torch" not in sys.modules

import numpy as np  # noqa: E402


def convolve(x, w, stride, padding):
    """A transposed convolution in float64, by its definition."""
    sizes = [(i - 1) * stride + k for i, k in zip(x.shape[2:], w.shape[2:])]
    y = np.zeros((x.shape[0], w.shape[1], *sizes))
    for tap in np.ndindex(*w.shape[2:]):
        place = tuple(slice(t, t + (i - 1) * stride + 1, stride) for t, i in zip(tap, x.shape[2:]))
        y[(slice(None), slice(None), *place)] += np.einsum("nc...,ck->nk...", x, w[(slice(None), slice(None), *tap)])
    return y[(slice(None), slice(None), *[slice(padding, size - padding) for size in sizes])]


def check(name, result, expected):
    error = abs(result - expected).max() / abs(expected).max()
    print(f"{name:40} {'x'.join(map(str, result.shape)):14} error {error:.1e}")
    assert error < 1e-5, name


def main():
    print(f"convt {convt.__version__} from {convt.__path__[0]}, imported in {1e3 * taken:.0f} ms, Python "
          f"{sys.version.split()[0]}, NumPy {np.__version__}")
    assert taken < 0.5  # the bar is 0.1 s; a first import also compiles the package
    random = np.random.default_rng(0)
    for dims in (1, 2, 3):
        x = random.uniform(-1, 1, (2, 4, 5, 6, 7)[:2 + dims]).astype(np.float32)
        w = random.uniform(-1, 1, (4, 3, 3, 3, 3)[:2 + dims]).astype(np.float32)
        y = convolve(x.astype(float), w.astype(float), 2, 1)
        function = getattr(convt, f"conv_transpose{dims}d")
        check(function.__name__, function(x, w, stride=2, padding=1), y)
    bias = random.uniform(-1, 1, 3).astype(np.float32)
    deviation = np.sqrt(y.var(1, keepdims=True) + 1e-5)
    normal = (y - y.mean(1, keepdims=True)) / deviation
    chain = [convt.ops.layer_norm(channels=True), convt.ops.relu(), convt.ops.mul(bias)]
    check("with a chain", convt.conv_transpose3d(x, w, stride=2, padding=1, epilogue=chain),
          np.maximum(normal, 0) * bias.reshape(-1, 1, 1, 1))
    plan = convt.Plan(f"conv_transpose3d batch=2 channels=4->3 input=5x6x7 kernel=3 stride=2 padding=1 | bias | sum")
    plan.pack(w)
    check("a plan", plan.run(x, operands=[bias]), (y + bias.reshape(-1, 1, 1, 1)).sum(1, keepdims=True))
    for name in convt.problems.__all__:
        plan = convt.Plan(getattr(convt.problems, name).demo_case)
        plan.run(*(np.ones(info.shape, np.float32) for info in (plan.input, plan.weight)),
                 [np.ones(info.shape, np.float32) for info in plan.operands])
        print(f"{name:50} ran on {plan.engine}")
    try:
        convt.Plan("conv_transpose1d channels=1->1 input=3 kernel=2 | gelo")
    except convt.ConvtError as error:
        assert "did you mean 'gelu'" in str(error)
    else:
        raise AssertionError("a misspelt op was taken")
    if "--torch" in sys.argv:
        with_torch()
    else:
        assert "torch" not in sys.modules


def with_torch():
    import torch
    import torch.nn.functional as F

    import convt.torch

    assert convt.torch.has_extension
    x, w = torch.rand(1, 4, 5, 6), torch.rand(4, 3, 3, 3)
    check("convt.torch", convt.torch.conv_transpose2d(x, w, stride=2, epilogue="gelu").numpy(),
          F.gelu(F.conv_transpose2d(x.double(), w.double(), stride=2)).numpy())
    assert "convt" in torch._dynamo.list_backends()
    model = torch.nn.Sequential(torch.nn.ConvTranspose2d(4, 3, 3), torch.nn.ReLU()).eval()
    with torch.inference_mode():
        check("torch.compile(backend='convt')", torch.compile(model, backend="convt")(x).numpy(), model(x).numpy())


main()
