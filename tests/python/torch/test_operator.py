# SPDX-License-Identifier: Apache-2.0
"""The operator as PyTorch's dispatcher sees it."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import convt
import convt.torch
from convt import _library
from convt.torch import _chain, _kernel, _op, _reference

OPS = [(row["name"], line) for row in _library.describe_ops() for line in row["examples"].splitlines()]
OPS += [("keep", "keep(a) | add(3) | sigmoid | mul(a) | keep(b) | tanh | sub(b) | div(4)"),
        ("keep", "keep(a) | mean(axes=cw) | mul(-1) | add(a) | keep(b) | pow(2) | mean(axes=w) | add(1) | sqrt | pow(-1) | mul(b)"),
        ("keep", "relu | keep(a) | sum | keep(b) | mul(a) | softmax(axes=cw) | mul(b)")]
_POSITIVE = ("sqrt", "log", "pow")  # such powers of what is negative, or their derivatives, are no numbers
CALLS = [
    ((2, 3, 4, 5), (3, 4, 3, 3), "stride=2 | bias | gelu | max_pool(2)", [(4,)]),
    ((2, 4, 7), (4, 2, 3), "groups=2 padding=1 | layer_norm(channels)", []),
    ((1, 2, 3, 4, 3), (2, 6, 2, 2, 2), "stride=2 | group_norm(3, affine) | sum", [(6,), (6,)]),
]


def arguments(shape, weight, text, operands, **kind):
    make = lambda s: torch.rand(s, **kind)  # noqa: E731
    return make(shape), make(weight), [make(s) for s in operands], text, "", 0


@pytest.mark.parametrize("call", CALLS, ids=[call[2] for call in CALLS])
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(call, grad):
    torch.library.opcheck(_op.conv_transpose, arguments(*call, requires_grad=grad))
    x, w, operands, text, _, _ = arguments(*call)
    out = torch.empty_like(_op.conv_transpose(x, w, operands, text, "", 0))
    torch.library.opcheck(_op.conv_transpose_out, (x, w, operands, text, 0, out))


def test_opcheck_channels_last():
    x, w = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.rand(3, 4, 3, 3)
    torch.library.opcheck(_op.conv_transpose, (x, w, [], "stride=2 | relu", "", 0))
    torch.library.opcheck(_op.conv_transpose, (x, w, [], "stride=2 | relu", "channels_first", 0))
    for weight in (w, w.to(memory_format=torch.channels_last)):
        arguments = (x, weight, [], "stride=2 | relu", "torch", 0)
        torch.library.opcheck(_op.conv_transpose_bare, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize(("name", "text"), OPS, ids=[text for _, text in OPS])
def test_gradients(name, text):
    """Of every op, for the input, the weight and each operand, in float64."""
    text = text.replace(", dtype=f32", "").replace("dtype=f32", "").replace("()", "")
    if name in _POSITIVE:
        text = f"abs | add(0.5) | {text}"
    trailing = "layer_norm(trailing" in text
    x, w = torch.randn(2, 2, 3, dtype=torch.float64), torch.randn(2, 6, 3, dtype=torch.float64)
    call = _chain.parse(f"stride=2 | {text}", 1)
    if trailing and call.chain[0].parameters["trailing"] > 2:
        x, w = torch.randn(1, 2, 2, 2, 2, dtype=torch.float64), torch.randn(2, 6, 2, 2, 2, dtype=torch.float64)
        call = _chain.parse(f"stride=2 | {text}", 3)
    y = _reference.convolution(x, w, call)
    operands = []
    for op, operand in call.operand_roles():
        if op.parameters.get("other") == "tensor":
            shape = y.shape
        elif trailing:
            shape = y.shape[-op.parameters["trailing"] :]
        else:
            shape = (6,)
        operands.append(torch.rand(shape, dtype=torch.float64) + 0.5)
    for tensor in (x, w, *operands):
        tensor.requires_grad_()

    def run(x, w, *operands):
        return _op.conv_transpose(x, w, list(operands), f"stride=2 | {text}", "", 0)

    torch.testing.assert_close(run(x, w, *operands), _reference.run(x, w, operands, call))
    assert torch.autograd.gradcheck(run, (x, w, *operands), atol=1e-6)
    results = (run(x, w, *operands), _op.call(x, w, operands, f"stride=2 | {text}"))  # by both ways that are recorded
    want, got = (torch.autograd.grad(y.square().sum(), (x, w, *operands)) for y in results)
    torch.testing.assert_close(got, want)


def test_some_gradients_only():
    x, w, b = torch.rand(1, 2, 4), torch.rand(2, 3, 3, requires_grad=True), torch.rand(3)
    y = convt.torch.conv_transpose1d(x, w, b, epilogue="gelu")
    (grad,) = torch.autograd.grad(y.sum(), [w])
    (want,) = torch.autograd.grad(F.gelu(F.conv_transpose1d(x, w, b)).sum(), [w])
    torch.testing.assert_close(grad, want)


def test_every_way_records():
    """Eager calls go round the operator's own autograd kernel, but not where something else looks on."""
    x, w, b = torch.rand(2, 3, 4), torch.rand(3, 2, 3, requires_grad=True), torch.rand(2)

    def ours(w):
        return convt.torch.conv_transpose1d(x, w, b, epilogue="gelu").sum()

    def theirs(w):
        return F.gelu(F.conv_transpose1d(x, w, b)).sum()

    with torch.autocast("cpu", torch.bfloat16):
        loss = ours(w)
        want = theirs(w)
    got, want = (torch.autograd.grad(each, [w])[0] for each in (loss, want))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, atol=0.1, rtol=0.05)
    for grad in (torch.enable_grad, torch.no_grad):  # what was traced can be trained later
        with grad():
            graph = torch.fx.experimental.proxy_tensor.make_fx(ours)(w.detach()).graph
        assert any(node.target is _op.conv_transpose for node in graph.nodes)


def test_second_derivative_is_refused():
    x, w = torch.rand(1, 2, 4, requires_grad=True), torch.rand(2, 3, 3)
    y = convt.torch.conv_transpose1d(x, w, epilogue="gelu")
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(y.sum(), [x], create_graph=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    x, w, b, g = torch.randn(1, 3, 5), torch.randn(3, 4, 3), torch.randn(4), torch.rand(4)
    want = F.relu(F.conv_transpose1d(x, w, b) * g[:, None])
    with torch.autocast("cpu", dtype):
        got = convt.torch.conv_transpose1d(x, w, b, epilogue=[convt.ops.mul(g), convt.ops.relu()])
        assert convt.torch.conv_transpose1d(x.double(), w.double(), b.double()).dtype == torch.float64
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), want, atol=0.1, rtol=0.05)


def test_vmap():
    x, w, b = torch.randn(3, 2, 4, 5), torch.randn(4, 2, 3), torch.randn(2)

    def ours(x, w, b):
        return convt.torch.conv_transpose1d(x, w, b, epilogue="gelu")

    def theirs(x, w, b):
        return F.gelu(F.conv_transpose1d(x, w, b))

    for dims, args in (((0, None, None), (x, w, b)), ((1, None, None), (x, w, b)),
                       ((0, 0, None), (x, w.expand(3, *w.shape) * torch.rand(3, 1, 1, 1), b)),
                       ((None, None, 0), (x[0], w, torch.randn(3, 2)))):
        torch.testing.assert_close(torch.vmap(ours, dims)(*args), torch.vmap(theirs, dims)(*args))


def test_out_is_not_autocast():
    """As PyTorch's calls with out=, which autocast leaves alone: arguments of several types are refused."""
    x, w, out = torch.randn(1, 2, 4), torch.randn(2, 3, 3), torch.empty(1, 3, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert convt.torch.conv_transpose1d(x, w, out=out) is out and out.dtype == torch.float32
        assert convt.torch.conv_transpose1d(x, w).dtype == torch.bfloat16
        with pytest.raises((RuntimeError, convt.ConvtError), match="dtype|weight is torch.bfloat16"):
            convt.torch.conv_transpose1d(x, w.bfloat16(), out=out)
    torch.testing.assert_close(out, F.conv_transpose1d(x, w))


def test_inference_mode():
    with torch.inference_mode():
        x, w = torch.randn(1, 2, 4), torch.randn(2, 3, 3)
        torch.testing.assert_close(convt.torch.conv_transpose1d(x, w), F.conv_transpose1d(x, w))


@pytest.fixture(params=[False, True], ids=["empty", "filled"])
def deterministic(request):
    """PyTorch's switch, which may fill new tensors with NaN; convt has nothing else to do for it."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = request.param
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before


@pytest.mark.parametrize("run", ["library", "Python"])
def test_deterministic_algorithms(deterministic, run, recwarn):
    """The same bits as without, twice, and no complaint."""
    x, w, b = torch.randn(2, 4, 9, 9), torch.randn(4, 6, 3, 3), torch.randn(6)
    text = "stride=2 padding=1 | bias | instance_norm | silu | max_pool(2) | softmax"
    call = _op.conv_transpose if run == "library" else _kernel.run
    results = [call(x, w, [b], text, layout, 0) for layout in ("channels_first", "channels_first", "channels_last")]
    torch.use_deterministic_algorithms(False)
    want = call(x, w, [b], text, "channels_first", 0)
    assert not want.isnan().any() and all(torch.equal(result, want) for result in results[:2])
    torch.testing.assert_close(results[2], want)
    assert not list(recwarn)


def test_deterministic_graphs(deterministic, recwarn):
    """Modules, a concatenation, gradients, and a graph."""
    model = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2), nn.GroupNorm(2, 6), nn.GELU(), nn.AvgPool2d(2))
    twin = copy.deepcopy(model)
    convt.torch.optimize(twin)
    function = torch.compile(lambda x: torch.cat([model(x), x.new_ones(2, 1, 5, 5)], 1), backend="convt",
                             options={"convt.take": "always", "convt.inner": "eager"})
    x = torch.randn(2, 4, 5, 5)
    recwarn.clear()
    grads = []
    for _ in range(2):
        result = function(x)
        torch.testing.assert_close(result[:, :6], twin(x))
        result.square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(*grads)) and not any(grad.isnan().any() for grad in grads[0])
    assert not [warning for warning in recwarn if "determinis" in str(warning.message)]


def module():
    op = convt.ops.layer_norm(
        channels=True, weight=torch.nn.Parameter(torch.rand(4)), bias=torch.nn.Parameter(torch.rand(4)))
    return convt.torch.nn.ConvTranspose2d(3, 4, 3, stride=2, epilogue=[op, convt.ops.gelu()])


def test_export_round_trip():
    m, x = module(), torch.randn(2, 3, 5, 6)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(m, (x,), dynamic_shapes=({0: batch},))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for size in (2, 5):
        x = torch.randn(size, 3, 5, 6)
        torch.testing.assert_close(loaded(x), m(x))


def test_copies():
    m, x = module(), torch.randn(2, 3, 5, 6)
    buffer = io.BytesIO()
    torch.save(m, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), torch.load(buffer, weights_only=False)):
        torch.testing.assert_close(other(x), m(x), atol=0, rtol=0)
        assert list(other.state_dict()) == list(m.state_dict())


def test_packed_weights():
    """A packed weight is used: its contents are not read again. Nothing is packed where nobody asked for it."""
    x, w = torch.randn(1, 2, 6), torch.randn(2, 3, 3)
    want = F.conv_transpose1d(x, w)
    for packed, frozen in ((0, False), (12345, True)):
        changed = w.clone()
        torch.testing.assert_close(_op.conv_transpose(x, changed, [], "", "", packed), want)
        changed.zero_()
        again = _op.conv_transpose(x, changed, [], "", "", packed)
        assert torch.allclose(again, want, atol=1e-6) == frozen


def test_without_the_extension():
    """The kernels in Python give the same."""
    if not convt.torch.has_extension:
        pytest.fail("the tests are to run with libconvt_torch.so: CONVT_TORCH_LIBRARY names it")
    files = [os.path.join(os.path.dirname(__file__), name) for name in ("test_functions.py", "test_around.py", __file__)]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k",
         "(out or epilogue or refusals or bounded or threads or packed or channels_last or inference or random or "
         "ranges or prologue_of or test_cat) and not without"],
        env={**os.environ, "CONVT_TORCH_LIBRARY": "none"}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:]
