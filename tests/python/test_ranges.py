# SPDX-License-Identifier: Apache-2.0
"""Arrays whose channels are a range of a wider array's: read and written where they are, by functions and by plans.
What is expected is the result of the same call on arrays without gaps."""

import math

import numpy as np
import pytest
import torch

import convt
from arrays import ARRANGED, BFLOAT16, FUNCTIONS, numbers
from convt import _arrays, ops

pytest.importorskip("hypothesis")  # a GPU's machine may lack it
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

MARK = 77.0  # in the channels around a range
BEFORE, BEHIND = 3, 2  # channels: pitches of odd numbers of elements are no multiples of 16 bytes
TYPES = ["f4", "f8", "f2", BFLOAT16]
LAYOUTS = ["contiguous", "channels_last"]


class Range:
    """A range of the channels of a wider array."""

    def __init__(self, shape, dtype, arranged, values=MARK):
        wide = np.full((shape[0], BEFORE + shape[1] + BEHIND, *shape[2:]), MARK, dtype)
        self.whole = ARRANGED[arranged](wide)
        self.view = self.whole[:, BEFORE:-BEHIND]
        self.view[...] = values

    def check(self, expected):
        """The range holds what is expected, and nothing else was touched."""
        assert np.array_equal(self.view, expected)
        assert (self.whole[:, :BEFORE] == MARK).all() and (self.whole[:, -BEHIND:] == MARK).all()


@pytest.fixture(name="pointers")
def _pointers(monkeypatch):
    """Where the input and the output of each call were."""
    seen = []
    run = convt.Plan.run_pointers

    def spy(self, input, weight, output, *arguments, **named):
        seen.append((input, output))
        return run(self, input, weight, output, *arguments, **named)

    monkeypatch.setattr(convt.Plan, "run_pointers", spy)
    return seen


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("arranged", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_ranges(dims, dtype, arranged, to, pointers):
    """As input, as output and as both, with operations and without."""
    for batch in (1, 3):
        x = ARRANGED[arranged](numbers((batch, 6, 4, 3, 5)[:dims + 2], dtype))
        w, c = numbers((6, 4, 3, 2, 3)[:dims + 2], dtype, 1), numbers(6, dtype, 2)
        for more in ({}, {"prologue": [ops.mul(c), ops.add(1)], "epilogue": [ops.layer_norm(channels=True), "relu"]}):
            dense = ARRANGED[to](np.empty(FUNCTIONS[dims](x, w, stride=2).shape, dtype))
            expected = FUNCTIONS[dims](x, w, stride=2, **more, out=dense)
            for single in (False, True)[:1 + (batch == 1)]:
                given, taken = Range(x.shape, dtype, arranged, x), Range(dense.shape, dtype, to)
                ends = [(array[0] if single else array) for array in (x, given.view, taken.view)]
                for source in ends[:2]:
                    taken.view[...] = MARK
                    result = FUNCTIONS[dims](source, w, stride=2, **more, out=ends[2])
                    assert result is ends[2]
                    assert pointers[-1] == (source.ctypes.data, ends[2].ctypes.data)
                    taken.check(expected)
                given.check(x)
                own = FUNCTIONS[dims](ends[1], w, stride=2, **more)
                assert np.array_equal(own, FUNCTIONS[dims](ends[0], w, stride=2, **more))
                assert own.strides == FUNCTIONS[dims](ends[0], w, stride=2, **more).strides


def test_a_decoder_s_concatenation():
    """The next layer reads what two have written, and one range may be read as the next is written."""
    x, w, v = numbers((2, 4, 5, 5)), numbers((4, 3, 3, 3), seed=1), numbers((8, 2, 2, 2), seed=2)
    joined = np.zeros((2, 8, 5, 5), np.float32)
    skip = joined[:, 3:5]
    skip[...] = numbers(skip.shape, seed=3)
    convt.conv_transpose2d(x, w, padding=1, out=joined[:, :3])
    convt.conv_transpose2d(joined[:, :3], w[:3], padding=1, out=joined[:, 5:])
    first = convt.conv_transpose2d(x, w, padding=1)
    expected = np.concatenate([first, numbers(skip.shape, seed=3), convt.conv_transpose2d(first, w[:3], padding=1)], 1)
    assert np.array_equal(joined, expected)
    assert np.array_equal(convt.conv_transpose2d(joined, v, stride=2), convt.conv_transpose2d(expected, v, stride=2))
    with pytest.raises(convt.ConvtError, match="output: must not overlap input"):
        convt.conv_transpose2d(joined[:, :4], w, padding=1, out=joined[:, 3:6])
    assert np.array_equal(joined, expected)


@st.composite
def slices(draw, shape, most_steps):
    """A wider array's shape, and slices that make an array of that shape of it."""
    sizes, parts = [], []
    for size in shape:
        step = draw(st.integers(1, most_steps)) * draw(st.sampled_from([1, 1, 1, -1]))
        before, behind = (draw(st.sampled_from([0, 0, 1, 2])) for _ in range(2))
        length = (size - 1) * abs(step) + 1
        sizes.append(before + length + behind)
        first, last = before, before + length
        parts.append(slice(first, last, step) if step > 0 else slice(last - 1, first - 1 if first else None, step))
    return sizes, tuple(parts)


@st.composite
def views(draw):
    dims = draw(st.integers(1, 3))
    batch, c_in, c_out = (draw(st.integers(1, 3)) for _ in range(3))
    space = [draw(st.integers(1, 3)) for _ in range(dims)]
    kernel = [draw(st.integers(1, 2)) for _ in range(dims)]
    shapes = (batch, c_in, *space), (batch, c_out, *(size + k - 1 for size, k in zip(space, kernel)))
    last = [draw(st.booleans()) for _ in shapes]
    # Often a range of channels alone, sometimes images left out, sometimes anything.
    which = [draw(st.sampled_from(["channels", "images", "all"])) for _ in shapes]
    plain = tuple(slice(None) for _ in range(dims + 2))
    cuts = []
    for shape, kind in zip(shapes, which):
        sizes, parts = draw(slices(shape, 2))
        cut = {"channels": {1}, "images": {0, 1}, "all": set(range(dims + 2))}[kind]
        cuts.append(([sizes[axis] if axis in cut else shape[axis] for axis in range(dims + 2)],
                     tuple(parts[axis] if axis in cut else plain[axis] for axis in range(dims + 2))))
    return shapes, kernel, last, cuts


def lies_as_a_range(view):
    """By its elements' places: the channels of each pixel, or the pixels of all channels, lie side by side, and what is
    between them is the same everywhere."""
    places = np.arange(math.prod(view.base.shape), dtype=np.int64).reshape(view.base.shape)
    strides = [stride // view.itemsize * 8 for stride in view.strides]
    first = (view.ctypes.data - view.base.ctypes.data) // view.itemsize * 8
    at = np.ndarray(view.shape, np.int64, places, first, strides)
    images = at.reshape(view.shape[0], -1)
    together = np.diff(images, axis=1) == 1
    pixels = math.prod(view.shape[2:])
    steps = np.diff(images[:, 0])
    if together.all() and (not len(steps) or ((steps == steps[0]).all() and steps[0] >= images.shape[1]
                                              and steps[0] % pixels == 0)):
        return True
    rows = np.moveaxis(at, 1, -1).reshape(-1, view.shape[1])
    steps = np.diff(rows[:, 0])
    return bool((np.diff(rows, axis=1) == 1).all() and (not len(steps) or (
        (steps == steps[0]).all() and steps[0] >= view.shape[1])))


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(views())
def test_any_views(case):
    """Any slices of arrays are read rightly. They are written rightly if they are a range of channels, and else refused;
    nothing around them is touched."""
    (x_shape, y_shape), kernel, last, cuts = case
    wholes = []
    for (sizes, _), channels_last in zip(cuts, last):
        order = [0, *range(2, len(sizes)), 1] if channels_last else list(range(len(sizes)))
        stored = np.full([sizes[axis] for axis in order], MARK, np.float32)
        wholes.append(np.moveaxis(stored, -1, 1) if channels_last else stored)
    x, out = (whole[parts] for whole, (_, parts) in zip(wholes, cuts))
    x[...] = numbers(x_shape)
    w = numbers((x_shape[1], y_shape[1], *kernel), seed=1)
    function = FUNCTIONS[len(kernel)]
    expected = function(np.ascontiguousarray(x), w)
    assert np.allclose(function(x, w), expected, atol=1e-6)
    if lies_as_a_range(out):
        assert function(x, w, out=out) is out
        assert np.allclose(out, expected, atol=1e-6)
        out[...] = MARK
    else:
        with pytest.raises(convt.ConvtError, match="out: must be contiguous, channels-last without gaps, or a range of"):
            function(x, w, out=out)
    assert (out.base == MARK).all()


def test_strides_that_mean_nothing():
    """Those of axes with one element."""
    x, w = numbers((1, 3, 1, 4)), numbers((3, 2, 1, 1), seed=1)
    expected = convt.conv_transpose2d(x, w)
    for strides in ((-8, 16, 999, 4), (0, 16, -4, 4)):
        odd = np.lib.stride_tricks.as_strided(x, x.shape, strides)
        assert _arrays.place_of(_arrays.look(odd, "x")) == ("channels_first", 0)
        assert np.array_equal(convt.conv_transpose2d(odd, w), expected)
    joined = Range((2, 3, 4, 1), "f4", "channels_last", numbers((2, 3, 4, 1)))
    expected = convt.conv_transpose2d(joined.view, w)
    for stride in (-4, 0, 4, 400):
        odd = np.lib.stride_tricks.as_strided(joined.view, joined.view.shape, (*joined.view.strides[:3], stride))
        assert _arrays.place_of(_arrays.look(odd, "x")) == ("channels_last", 3 + BEFORE + BEHIND)
        assert np.array_equal(convt.conv_transpose2d(odd, w), expected)


def test_what_is_copied_and_refused(pointers):
    x, w = numbers((2, 4, 3, 3)), numbers((4, 2, 1, 1), seed=1)
    expected = convt.conv_transpose2d(x, w)
    wide = np.full((4, 9, 5, 6), MARK, np.float32)
    for view in (wide[:2, :4, :3, :3], wide[:2, 4::-1][:, :4, :3, :3], wide[:2, ::2][:, :4, 1:4, 1:4], wide[1::-1, :4, :3, :3],
                 np.moveaxis(wide, 3, 1)[:2, :4, :3, :3]):
        view[...] = x
        assert np.allclose(convt.conv_transpose2d(view, w), expected, atol=1e-6)
        assert pointers[-1][0] != view.ctypes.data
        with pytest.raises(convt.ConvtError, match="or a range of the channels of such an array .got shape .2, 2, 3, 3. with"):
            convt.conv_transpose2d(x, w, out=view[:, :2])
    every_second = np.full((4, 4, 3, 3), MARK, np.float32)[::2]  # lies as half of the channels of arrays with 8
    every_second[...] = x
    assert np.array_equal(convt.conv_transpose2d(every_second, w), expected)
    assert pointers[-1][0] == every_second.ctypes.data


def test_wrong_ranges():
    """The message is about `out`, whatever its range could not hold; nothing is written."""
    x, w = numbers((2, 4, 3, 3)), numbers((4, 6, 1, 1), seed=1)
    joined = np.full((2, 9, 3, 3), MARK, np.float32)
    frozen = joined.copy()
    frozen.flags.writeable = False
    last = ARRANGED["channels_last"](joined)
    for out, message in [(joined[:, 3:8], "out: expected f32 of shape .2, 6, 3, 3. .got f32 of shape .2, 5,"),
                         (joined[:, 4:6], "out: expected f32 of shape"), (last[:, 1:3], "out: expected f32 of shape"),
                         (joined[:, 0:1][:, :, :2], "out: must be contiguous"), (joined[0, 3:], "out: expected f32 of shape"),
                         (np.full((2, 5, 3, 3), MARK, "f4")[:, 1:3], "out: expected f32 of shape .2, 6, 3, 3"),
                         (frozen[:, 3:], "out: must be writable"), (joined.astype("f8")[:, 3:], "out: expected f32")]:
        with pytest.raises(convt.ConvtError, match=message) as raised:
            convt.conv_transpose2d(x, w, out=out)
        assert raised.value.status == "invalid_argument"
        assert (out == MARK).all()
    with pytest.raises(convt.ConvtError, match="chain: column 1: unknown op 'gelo'"):
        convt.conv_transpose2d(x, w, epilogue="gelo", out=joined[:, 3:])
    assert (joined == MARK).all() and (last == MARK).all()


@pytest.mark.parametrize("arranged", LAYOUTS)
def test_tensors_of_pytorch(arranged):
    x, w = numbers((2, 4, 3, 3)), numbers((4, 6, 2, 2), seed=1)
    taken = Range((2, 6, 4, 4), "f4", arranged)
    given = Range(x.shape, "f4", arranged, x)
    out = torch.from_numpy(taken.whole)[:, BEFORE:-BEHIND]
    source = torch.from_numpy(given.whole)[:, BEFORE:-BEHIND]
    assert convt.conv_transpose2d(source, torch.from_numpy(w), out=out) is out
    dense = ARRANGED[arranged](np.empty(taken.view.shape, "f4"))
    taken.check(convt.conv_transpose2d(ARRANGED[arranged](x), w, out=dense))
    result = convt.conv_transpose2d(source, torch.from_numpy(w))
    assert isinstance(result, torch.Tensor) and np.array_equal(result.numpy(), taken.view)


# ---- plans


def text_of(layout, dtype="f32"):
    return (f"conv_transpose2d dtype={dtype} layout={layout} batch=2 channels=4->6 within=9->11 input=3x5 kernel=2 stride=2 "
            "| relu")


@pytest.mark.parametrize("layout, arranged", [("channels_first", "contiguous"), ("channels_last", "channels_last")])
@pytest.mark.parametrize("dtype, name", [("f4", "f32"), ("f8", "f64"), ("f2", "f16"), (BFLOAT16, "bf16")])
def test_plan(layout, arranged, dtype, name, pointers):
    plan = convt.Plan(text_of(layout, name))
    x, w = numbers(plan.input.shape, dtype), numbers(plan.weight.shape, dtype, 1)
    expected = convt.Plan(text_of(layout, name).replace("within=9->11 ", "")).run(x, w)
    given, taken = Range(x.shape, dtype, arranged, x), Range(expected.shape, dtype, arranged)
    assert (plan.input.shape, plan.output.shape) == (x.shape, (2, 6, 6, 10))
    assert [stride * x.itemsize for stride in plan.input.strides] == list(given.view.strides)
    assert [stride * x.itemsize for stride in plan.output.strides] == list(taken.view.strides)
    span = 2 * 9 * 15 - 5 if layout == "channels_last" else (9 + 4) * 15
    assert plan.input.bytes == span * x.itemsize
    # From a range and into one, where they are; then from arrays that lie otherwise.
    assert plan.run(given.view, w, out=taken.view) is taken.view
    assert pointers[-1] == (given.view.ctypes.data, taken.view.ctypes.data)
    taken.check(expected)
    for how in ARRANGED.values():
        taken.view[...] = MARK
        plan.run(how(x), w, out=taken.view)
        taken.check(expected)
    given.check(x)
    # Into an array of its own.
    result = plan.run(x, w)
    assert result.dtype == dtype and result.strides == taken.view.strides and np.array_equal(result, expected)
    plan.pack(w)
    assert np.array_equal(plan.run(given.view), expected)


def test_plan_of_other_arrays():
    plan = convt.Plan(text_of("channels_last", "bf16"))
    x, w = numbers(plan.input.shape, BFLOAT16), numbers(plan.weight.shape, BFLOAT16, 1)
    expected = plan.run(x, w)
    assert np.array_equal(plan.run(x.view("u2"), w.view("u2")), expected.view("u2"))
    result = plan.run(*(torch.from_numpy(array.view("i2")).view(torch.bfloat16) for array in (x, w)))
    assert result.stride() == plan.output.strides
    assert np.array_equal(result.contiguous().view(torch.int16).numpy(), np.ascontiguousarray(expected).view("i2"))
    none = convt.Plan(text_of("channels_first").replace("batch=2", "batch=0"))
    assert none.run(np.empty((0, 4, 3, 5), "f4"), w.astype("f4")).shape == (0, 6, 6, 10)


def test_plan_refuses_what_lies_otherwise():
    plan = convt.Plan(text_of("channels_first"))
    x, w = numbers(plan.input.shape), numbers(plan.weight.shape, seed=1)
    wide = np.full((2, 12, 6, 10), MARK, np.float32)
    dense = np.full(plan.output.shape, MARK, np.float32)
    last = Range(plan.output.shape, "f4", "channels_last")
    for out, message in [(dense, r"out: must be channels_first as a range of 11 channels, with strides .660, 60, 10, 1. "
                          r".got shape .2, 6, 6, 10. with strides .360, 60, 10, 1"), (wide[:, :6], "a range of 11 channels"),
                         (last.view, "a range of 11 channels"), (wide[:, :11], "out: expected f32 of shape .2, 6, 6, 10")]:
        with pytest.raises(convt.ConvtError, match=message):
            plan.run(x, w, out=out)
        assert (out == MARK).all()
    whole = convt.Plan(text_of("channels_first").replace("within=9->11 ", ""))
    with pytest.raises(convt.ConvtError, match="out: must be channels_first without gaps .got"):
        whole.run(x, w, out=wide[:, :6])
    with pytest.raises(convt.ConvtError, match="output_within: must be at least the 6 channels of the range"):
        convt.Plan(text_of("channels_first").replace("9->11", "9->5"))
