# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, through DLPack."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import convt

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

X, W, B = torch.rand(2, 4, 5, 6), torch.rand(4, 3, 3, 3), torch.rand(3)


def expected(x=X, dtype=torch.float32):
    x, w, b = (tensor.to(dtype).double() for tensor in (x, W, B))
    return F.relu(F.conv_transpose2d(x, w, b, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_results(dtype):
    x, w, b = (tensor.to("cuda", dtype) for tensor in (X, W, B))
    for arranged in (x, x.to(memory_format=torch.channels_last)):
        result = convt.conv_transpose2d(arranged, w, b, stride=2, epilogue="relu")
        assert result.device == x.device and result.dtype == dtype
        assert result.is_contiguous(memory_format=torch.channels_last) == (arranged.stride(1) == 1)
        torch.cuda.synchronize()
        assert torch.allclose(result.double().cpu(), expected(dtype=dtype), rtol=1e-2 if dtype.itemsize == 2 else 1e-5)
        out = torch.empty_like(result)
        assert convt.conv_transpose2d(arranged, w, b, stride=2, epilogue="relu", out=out) is out
        torch.cuda.synchronize()
        assert torch.equal(out, result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_ranges(dtype, form):
    """Of channels: read and written where they are. Prologues, too."""
    w, b = W.to("cuda", dtype), B.to("cuda", dtype)
    given = torch.full((2, 9, 5, 6), 77, dtype=dtype, device="cuda").to(memory_format=form)
    joined = torch.full((2, 8, 11, 13), 77, dtype=dtype, device="cuda").to(memory_format=form)
    given[:, 3:7] = X.to("cuda", dtype)
    out = joined[:, 3:6]
    assert convt.conv_transpose2d(given[:, 3:7], w, b, stride=2, prologue="add(1)", epilogue="relu", out=out) is out
    torch.cuda.synchronize()
    x, w, b = (tensor.to(dtype).double() for tensor in (X, W, B))
    right = F.relu(F.conv_transpose2d(x + 1, w, b, 2))
    assert torch.allclose(out.double().cpu(), right, rtol=1e-2 if dtype.itemsize == 2 else 1e-5)
    assert (joined[:, :3] == 77).all() and (joined[:, 6:] == 77).all()


def test_stream():
    """Work goes to the stream given, behind what the producer has enqueued on its own."""
    plan = convt.Plan("conv_transpose2d batch=2 channels=4->3 input=5x6 kernel=3 stride=2 | bias | relu", device="cuda")
    stream = torch.cuda.Stream()
    w, b = W.cuda(), B.cuda()
    torch.cuda._sleep(50_000_000)
    x = X.cuda(non_blocking=True)
    out = plan.run(x, w, [b], stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.allclose(out.double().cpu(), expected(), rtol=1e-5)
    plan.pack(w)
    out = plan.run(x, operands=[b])
    torch.cuda.synchronize()
    assert torch.allclose(out.double().cpu(), expected(), rtol=1e-5)


def test_refusals():
    x, w = X.cuda(), W.cuda()
    with pytest.raises(convt.ConvtError, match="arrays: expected all on cuda:0"):
        convt.conv_transpose2d(x, W)
    with pytest.raises(convt.ConvtError, match="arrays: expected all on cpu"):
        convt.conv_transpose2d(X.numpy(), W.numpy(), out=torch.empty(2, 3, 7, 8, device="cuda"))
    with pytest.raises(convt.ConvtError, match="arrays on a GPU are not copied"):
        convt.conv_transpose2d(x[:, :, :, ::2], w)

    class Unknown:
        """Of a library that convt does not know."""

        __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    with pytest.raises(convt.ConvtError, match="out: must be given"):
        convt.conv_transpose2d(Unknown(), w)
    out = torch.empty(2, 3, 7, 8, device="cuda")
    assert convt.conv_transpose2d(Unknown(), w, out=out) is out
    torch.cuda.synchronize()
    y = F.conv_transpose2d(X.double(), W.double())
    assert np.allclose(out.cpu().numpy(), y.numpy(), rtol=1e-5)
