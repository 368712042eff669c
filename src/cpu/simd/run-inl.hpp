// SPDX-License-Identifier: Apache-2.0
// Steps that work pixel by pixel, all of them over one strip of pixels before the next.
#pragma once

#include <algorithm>
#include <cassert>
#include <span>

#include "cpu/kernels.hpp"
#include "cpu/simd/channels-inl.hpp"
#include "cpu/simd/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// What runs between load and store of a row; V is Values<T>.
template <class Op>
struct Apply {
  Op op;
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return op.apply(x);
  }
};
template <class T>
struct Line {
  Values<T> a, b;
  HWY_INLINE Values<T> operator()(Values<T> x) const { return mul_add(a, x, b); }
};
template <class T, class Op>
struct ApplyLine {
  Op op;
  Line<T> line;
  HWY_INLINE Values<T> operator()(Values<T> x) const { return line(op.apply(x)); }
};
template <class T, class Op>
struct ApplyWith {
  Op op;
  Values<T> other;
  HWY_INLINE Values<T> operator()(Values<T> x) const { return op.apply(x, other); }
};
template <class T, class Op>
struct Map {
  Op op;
  Values<T> centre, scale;
  HWY_INLINE Values<T> operator()(Values<T> x) const { return op.map(x, centre, scale); }
};

template <class T, class F>
HWY_INLINE void map_row(F f, T* x, std::int64_t count) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes) f(V::load(x + i)).store(x + i);
  if (i == count) return;
  const Part<T> part(count - i);
  part.store(f(part.load(x + i)), x + i);
}

template <class T, class Op>
HWY_INLINE void combine_row(Op op, T* x, const T* other, std::int64_t count) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes) op.apply(V::load(x + i), V::load(other + i)).store(x + i);
  if (i == count) return;
  const Part<T> part(count - i);
  part.store(op.apply(part.load(x + i), part.load(other + i)), x + i);
}

// x*weight + bias.
template <class T>
HWY_NOINLINE void weigh_row(T* x, const T* weight, const T* bias, std::int64_t count) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes)
    mul_add(V::load(x + i), V::load(weight + i), V::load(bias + i)).store(x + i);
  if (i == count) return;
  const Part<T> part(count - i);
  part.store(mul_add(part.load(x + i), part.load(weight + i), part.load(bias + i)), x + i);
}

// Pixels of a strip that lie in one row of the tile's box; or, where those follow each other in the image, in several.
struct Run {
  std::int64_t count = 0;
  Axes at{};  // of the first, in the image
};
template <class T>
Run run_at(const Strip<T>& strip, std::int64_t offset) {
  const Axes &origin = strip.box->origin, &size = strip.box->size;
  const std::int64_t pixel = strip.begin + offset, row = pixel / size[2], w = pixel % size[2];
  return {std::min(size[2] - w, strip.count - offset),
          {origin[0] + row / size[1], origin[1] + row % size[1], origin[2] + w}};
}
template <class T>
Run dense_run_at(const Strip<T>& strip, std::int64_t offset, const Axes& space) {
  const Axes& size = strip.box->size;
  Run run = run_at(strip, offset);
  if (size[2] != space[2]) return run;
  const std::int64_t dense = size[1] == space[1] ? volume(size) : size[1] * size[2];
  run.count = std::min(dense - (strip.begin + offset) % dense, strip.count - offset);
  return run;
}

// ---- By family.

template <class T, class Op>
HWY_NOINLINE void pointwise(const Op& op, const Strip<T>& strip) {
  const bool dense = strip.channel_step == strip.count;
  const std::int64_t rows = dense ? 1 : strip.channels, count = dense ? strip.channels * strip.count : strip.count;
  for (std::int64_t c = 0; c < rows; ++c) map_row(Apply<Op>{op}, strip.row(c), count);
}

// With the affine step behind it.
template <class T, class Op>
HWY_NOINLINE void pointwise_affine(const Op& op, const BoundStep<T>& behind, const Strip<T>& strip) {
  using V = Values<T>;
  for (std::int64_t c = 0; c < strip.channels; ++c) {
    const std::int64_t channel = strip.first_channel + c;
    map_row(ApplyLine<T, Op>{op, {V(behind.a[channel]), V(behind.b[channel])}}, strip.row(c), strip.count);
  }
}

// Whose constants T does not hold.
template <class T>
HWY_NOINLINE void wide_affine(const BoundStep<T>& step, const Strip<T>& strip) {
  for (std::int64_t c = 0; c < strip.channels; ++c) {
    const std::int64_t channel = strip.first_channel + c;
    const double a = step.wide[channel], b = step.wide[step.step->out.channels + channel];
    T* const x = strip.row(c);
    for (std::int64_t i = 0; i < strip.count; ++i) x[i] = static_cast<T>(a * static_cast<double>(x[i]) + b);
  }
}

template <class T>
HWY_NOINLINE void affine(const BoundStep<T>& step, const Strip<T>& strip) {
  using V = Values<T>;
  if (step.wide != nullptr) return wide_affine(step, strip);
  for (std::int64_t c = 0; c < strip.channels; ++c) {
    const std::int64_t channel = strip.first_channel + c;
    map_row(Line<T>{V(step.a[channel]), V(step.b[channel])}, strip.row(c), strip.count);
  }
}

// `count` elements of a tensor from `at` on: where they are, or else as T in `buffer`.
template <class T>
HWY_NOINLINE const T* operand_row(const ImageView& image, std::int64_t channel, const Axes& at, std::int64_t count,
                                  T* buffer) {
  const Axes& space = image.space;
  const std::int64_t pixel = (at[0] * space[1] + at[1]) * space[2] + at[2];
  const T* row = buffer;
  visit_dtype(image.dtype, [&]<class Stored>(Stored*) {
    if constexpr (StoredFor<Stored, T>) {
      const auto* const data = static_cast<const Stored*>(image.data);
      if (image.layout == CONVT_CHANNELS_LAST) {
        transpose<T, Stored, T>({data + pixel * image.channels + channel, image.channels}, {buffer, count}, count, 1);
      } else if constexpr (std::same_as<Stored, T>) {
        row = data + channel * volume(space) + pixel;
      } else {
        convert_row<T>(data + channel * volume(space) + pixel, data + image.channels * volume(space), buffer, count);
      }
    }
  });
  return row;
}

template <class T, class Op>
HWY_NOINLINE void combine(const Op& op, const BoundStep<T>& step, const Strip<T>& strip) {
  if constexpr (!LinearCombine<Op>)
    if (op.term.kind == Term::channel || op.term.kind == Term::scalar) {
      using V = Values<T>;
      for (std::int64_t c = 0; c < strip.channels; ++c) {
        const V other = op.term.kind == Term::scalar ? V(op.term.number) : V(step.a[strip.first_channel + c]);
        map_row(ApplyWith<T, Op>{op, other}, strip.row(c), strip.count);
      }
      return;
    }
  if (op.term.kind == Term::kept) {
    const Tile<T>& kept = step.kept;
    for (std::int64_t c = 0; c < strip.channels; ++c)
      combine_row(op, strip.row(c),
                  kept.data + (strip.first_channel - kept.first_channel + c) * kept.channel_step + strip.begin,
                  strip.count);
    return;
  }
  assert(op.term.kind == Term::conv || op.term.kind == Term::tensor);
  if (op.term.kind == Term::conv) {
    for (std::int64_t c = 0; c < strip.channels; ++c)
      combine_row(op, strip.row(c), strip.conv + c * strip.conv_step, strip.count);
    return;
  }
  constexpr std::int64_t most = 256;
  T buffer[most];
  for (std::int64_t c = 0; c < strip.channels; ++c)
    for (std::int64_t offset = 0; offset < strip.count;) {
      const Run run = dense_run_at(strip, offset, step.tensor.space);
      const std::int64_t count = std::min(run.count, most);
      const T* const other = operand_row(step.tensor, strip.first_channel + c, run.at, count, buffer);
      combine_row(op, strip.row(c) + offset, other, count);
      offset += count;
    }
}

// A norm over space.
template <class T, class Op>
HWY_NOINLINE void map_regions(const Op& op, const BoundStep<T>& step, const Strip<T>& strip) {
  using V = Values<T>;
  const Regions& regions = step.regions;
  const Axes& space = step.step->in.space;
  const bool by_row = regions.axes > 0 || step.weight != nullptr;
  for (std::int64_t c = 0; c < strip.channels; ++c) {
    const std::int64_t channel = strip.first_channel + c, first = channel / regions.channels_each * regions.outer;
    for (std::int64_t offset = 0; offset < strip.count;) {
      Run run{strip.count, {}};
      if (by_row) run = run_at(strip, offset);
      std::int64_t region = 0, inside = channel % regions.channels_each;
      for (int axis = 0; axis < 3; ++axis) {
        std::int64_t& index = axis < regions.axes ? region : inside;
        const auto i = static_cast<std::size_t>(axis);
        index = index * space[i] + run.at[i];
      }
      T* const row = strip.row(c) + offset;
      const V centre(step.centre[first + region]), scale(step.scale[first + region]);
      map_row(Map<T, Op>{op, centre, scale}, row, run.count);
      if (step.weight != nullptr) weigh_row(row, step.weight + inside, step.bias + inside, run.count);
      offset += run.count;
    }
  }
}

template <class T, class Op>
void run_op(const Op& op, const BoundStep<T>& step, Strip<T>& strip) {
  if constexpr (std::derived_from<Op, Pointwise>) {
    pointwise(op, strip);
  } else if constexpr (std::derived_from<Op, Combine>) {
    combine(op, step, strip);
  } else if constexpr (std::derived_from<Op, Reduce>) {
    reduce_channels(op, strip);
    strip.channels = 1;
  } else if constexpr (std::derived_from<Op, Normalise>) {
    if (op.region().kind == Region::channels)
      normalise_channels(op, strip);
    else if constexpr (std::derived_from<Op, twins::Norm>)
      map_regions(op, step, strip);
  } else {
    assert(false && "a pool is not pixel by pixel");
  }
}

// ---- All steps.

inline bool mixes_channels(const Step& step) {
  const Op* const any = std::get_if<Op>(&step.what);
  return any != nullptr && visit_twin(*any, []<class O>(const O& op) {
           if constexpr (std::derived_from<O, Normalise>) return op.region().kind == Region::channels;
           return std::derived_from<O, Reduce>;
         });
}

template <class T>
HWY_NOINLINE void write_strip(const Strip<T>& strip, const ImageView& image) {
  const std::int64_t pixels = volume(image.space);
  for (std::int64_t offset = 0; offset < strip.count;) {
    const Run run = dense_run_at(strip, offset, image.space);
    T* to = static_cast<T*>(image.data) + strip.first_channel * pixels +
            (run.at[0] * image.space[1] + run.at[1]) * image.space[2] + run.at[2];
    const RowWriter<T, T> write_row{run.count};
    const RowStreamer<T> stream_row{run.count};
    for (std::int64_t c = 0; c < strip.channels; ++c, to += pixels)
      if (image.stream)
        stream_row(strip.row(c) + offset, to);
      else
        write_row(strip.row(c) + offset, to);
    offset += run.count;
  }
}

// How many of the steps, from the first on, this ran.
template <class T>
std::size_t run_first(std::span<const BoundStep<T>> steps, Strip<T>& strip) {
  const Op* const any = std::get_if<Op>(&steps[0].step->what);
  if (any == nullptr) {
    affine(steps[0], strip);
    return 1;
  }
  const bool affine_next =
      steps.size() > 1 && std::holds_alternative<Affine>(steps[1].step->what) && steps[1].wide == nullptr;
  return visit_twin(*any, [&]<class O>(const O& op) -> std::size_t {
    if constexpr (std::derived_from<O, Pointwise>)
      if (affine_next) {
        pointwise_affine(op, steps[1], strip);
        return 2;
      }
    run_op(op, steps[0], strip);
    return 1;
  });
}
template <class T>
void run_all(std::span<const BoundStep<T>> steps, Strip<T>& strip) {
  while (!steps.empty()) steps = steps.subspan(run_first(steps, strip));
}

// A strip through the steps that go channel by channel and to its place, some channels at a time: the stores of these
// drain while the next are computed.
template <class T>
void run_and_write(std::span<const BoundStep<T>> steps, const Strip<T>& strip, const ImageView& image) {
  constexpr std::int64_t together = 8;
  for (std::int64_t c = 0; c < strip.channels; c += together) {
    Strip<T> some = strip;
    some.data = strip.row(c);
    some.first_channel += c;
    some.channels = std::min(together, strip.channels - c);
    if (strip.conv != nullptr) some.conv = strip.conv + c * strip.conv_step;
    run_all(steps, some);
    write_strip(some, image);
  }
}

template <class T>
void run(std::span<const BoundStep<T>> steps, const Tile<T>& tile, const Tile<T>& conv, const ImageView* to) {
  constexpr std::int64_t budget = 24 * 1024 / sizeof(T);  // of 32 KiB L1, beside operands
  constexpr std::int64_t unit = Values<T>::lanes, whole = Four<T>::lanes;
  std::size_t mixing = 0;  // steps up to the last that mixes channels
  bool together = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // A channels-last operand is read by lines that hold many channels.
    const bool lines = steps[i].tensor.data != nullptr && steps[i].tensor.layout == CONVT_CHANNELS_LAST;
    if (mixes_channels(*steps[i].step) || lines) mixing = i + 1;
    together = mixing > 0;
  }
  const std::int64_t pixels = tile.box.pixels();
  std::int64_t channels = tile.channels, block = budget / std::max<std::int64_t>(channels, 1);
  block = std::max(block >= whole ? block / whole * whole : block / unit * unit, unit);
  if (!together) {
    block = std::min(pixels, budget / whole * whole);
    channels = std::clamp<std::int64_t>(budget / std::max<std::int64_t>(block, 1), 1, channels);
  }
  const bool at_once = to != nullptr && to->layout == CONVT_CHANNELS_FIRST && to->dtype == real_dtype<T>;
  std::int64_t left = tile.channels;
  for (std::int64_t c = 0; c < tile.channels; c += channels)
    for (std::int64_t begin = 0; begin < pixels; begin += block) {
      Strip<T> strip{tile.data + c * tile.channel_step + begin,
                     tile.channel_step,
                     tile.first_channel + c,
                     std::min(channels, tile.channels - c),
                     &tile.box,
                     begin,
                     std::min(block, pixels - begin)};
      if (conv.data != nullptr) {
        strip.conv = conv.data + c * conv.channel_step + begin;
        strip.conv_step = conv.channel_step;
      }
      run_all(at_once ? steps.first(mixing) : steps, strip);
      if (at_once) run_and_write(steps.subspan(mixing), strip, *to);
      if (strip.channels < std::min(channels, tile.channels - c)) left = strip.channels;  // reduced
    }
  if (at_once) {
    if (to->stream) hwy::FlushStream();
  } else if (to != nullptr) {
    Tile<T> result = tile;
    result.channels = left;
    write(result, *to);
  }
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
