// SPDX-License-Identifier: Apache-2.0
#include "reference/chain.hpp"

#include <algorithm>
#include <array>

namespace convt::core {
namespace {

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Pointwise> {
  const std::int64_t count = stage.in.channels * volume(stage.in.space);
  for (std::int64_t i = 0; i < count; ++i) image.result[i] = op.apply(image.value[i]);
}

template <class T>
void run(const T&, const Stage& stage, const Image& image) requires std::derived_from<T, Keeps> {
  std::copy_n(image.value, stage.in.channels * volume(stage.in.space), image.result);
}

// Steps through a value that is broadcast to `to`: 0 along axes where it has one element.
struct BroadcastSteps {
  std::array<std::int64_t, 4> step{};
  BroadcastSteps(const Shape& from, const Shape& to) {
    const std::array<std::int64_t, 4> sizes{from.channels, from.space[0], from.space[1], from.space[2]};
    const std::array<std::int64_t, 4> wanted{to.channels, to.space[0], to.space[1], to.space[2]};
    for (std::size_t a = 4, each = 1; a-- > 0; each *= static_cast<std::size_t>(sizes[a]))
      step[a] = sizes[a] == wanted[a] ? static_cast<std::int64_t>(each) : 0;
  }
};

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Combine> {
  if (op.term.kind == Term::kept) {
    const BroadcastSteps own(stage.in, stage.out), other(image.other_shape, stage.out);
    const Axes& out = stage.out.space;
    double* result = image.result;
    for (std::int64_t c = 0; c < stage.out.channels; ++c)
      for (std::int64_t d = 0; d < out[0]; ++d)
        for (std::int64_t h = 0; h < out[1]; ++h)
          for (std::int64_t w = 0; w < out[2]; ++w) {
            const auto at = [&](const BroadcastSteps& s) {
              return c * s.step[0] + d * s.step[1] + h * s.step[2] + w * s.step[3];
            };
            *result++ = op.apply(image.value[at(own)], image.other[at(other)]);
          }
    return;
  }
  const std::int64_t pixels = volume(stage.in.space);
  for (std::int64_t c = 0; c < stage.in.channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) {
      const std::int64_t i = c * pixels + p;
      const double other = op.term.kind == Term::scalar    ? op.term.number
                           : op.term.kind == Term::channel ? image.operands[0].at(c)
                           : op.term.kind == Term::tensor  ? image.operands[0].at(c, p)
                                                           : image.other[i];
      image.result[i] = op.apply(image.value[i], other);
    }
}

struct Statistics {
  double centre = 0, scale = 0;
};

// Elements of a region: `count` along each of C, D, H, W, `step` apart.
struct Elements {
  const double* first;
  std::array<std::int64_t, 4> count{1, 1, 1, 1}, step{};

  template <class F>
  void each(F&& f) const {
    for (std::int64_t c = 0; c < count[0]; ++c)
      for (std::int64_t d = 0; d < count[1]; ++d)
        for (std::int64_t h = 0; h < count[2]; ++h)
          for (std::int64_t w = 0; w < count[3]; ++w) f(c * step[0] + d * step[1] + h * step[2] + w * step[3]);
  }
  std::int64_t size() const { return count[0] * count[1] * count[2] * count[3]; }
};

template <class T>
Statistics statistics(const T& op, const Elements& all) {
  const auto n = static_cast<double>(all.size());
  const double* const x = all.first;
  double folded = op.template start<double>();
  all.each([&](std::int64_t i) { folded = op.join(folded, x[i]); });
  Statistics s{op.centre(folded, n), 0};
  if constexpr (std::derived_from<T, ops::Norm>) {
    // The rounded mean of equal values can miss them by an ulp, which a norm then magnifies by 1/sqrt(eps). The mean of
    // what is left corrects it, to the value itself.
    double rest = 0;
    all.each([&](std::int64_t i) { rest += x[i] - s.centre; });
    s.centre += rest / n;
  }
  if constexpr (T::two_pass) {
    double total = 0;
    all.each([&](std::int64_t i) { total += op.deviation(x[i], s.centre); });
    s.scale = op.scale(total, n);
  }
  return s;
}

// Calls f with each region of a value that these axes make one of.
template <class F>
void each_region(AxisSet axes, const Shape& shape, const double* value, F&& f) {
  const Axes& space = shape.space;
  const std::array<std::int64_t, 4> sizes{shape.channels, space[0], space[1], space[2]};
  Elements outside{value, sizes, {volume(space), space[1] * space[2], space[2], 1}}, inside = outside;
  for (std::size_t a = 0; a < 4; ++a) (axes.bits >> a & 1 ? outside : inside).count[a] = 1;
  outside.each([&](std::int64_t at) {
    inside.first = value + at;
    f(inside);
  });
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Reduce> {
  double* result = image.result;
  each_region(op.axes, stage.in, image.value, [&](const Elements& region) {
    const Statistics s = statistics(op, region);
    *result++ = op.result(s.centre, s.scale);
  });
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Normalise> {
  const Region region = op.region();
  if (region.kind == Region::axes)
    return each_region({static_cast<unsigned>(region.parameter)}, stage.in, image.value, [&](const Elements& all) {
      const Statistics s = statistics(op, all);
      double* const to = image.result + (all.first - image.value);
      all.each([&](std::int64_t i) { to[i] = op.map(all.first[i], s.centre, s.scale); });
    });
  const std::int64_t channels = stage.in.channels, pixels = volume(stage.in.space), all = channels * pixels;
  const std::size_t affine = region.kind == Region::given ? 2 : 0;  // where weight and bias begin

  // A region is `count` elements from `first`, `step` apart; `count` of them make the image.
  std::int64_t count = channels, step = pixels;  // channels of a pixel
  if (region.kind != Region::channels) {
    step = 1;
    count = pixels;  // instance, given: a channel's pixels
    if (region.kind == Region::groups) count = all / region.parameter;
    if (region.kind == Region::trailing) {
      const auto sizes = stage.in.sizes();
      count = 1;
      for (auto size = sizes.end() - region.parameter; size != sizes.end(); ++size) count *= *size;
    }
  }
  for (std::int64_t r = 0; r < all / count; ++r) {
    const std::int64_t first = step == 1 ? r * count : r;
    Statistics s;
    if (region.kind == Region::given)
      s = {image.operands[0].at(r), op.scale(image.operands[1].at(r), 1.0)};
    else
      s = statistics(op, {image.value + first, {1, 1, 1, count}, {0, 0, 0, step}});
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t i = first + j * step;
      double y = op.map(image.value[i], s.centre, s.scale);
      if (op.affine) {
        const std::int64_t at = region.kind == Region::trailing ? j : i / pixels;
        y = y * image.operands[affine].at(at) + image.operands[affine + 1].at(at);
      }
      image.result[i] = y;
    }
  }
}

// The part of a window that lies in the image, and how many elements the op divides by.
struct Span {
  std::int64_t begin, end;
  double counted;  // a double, since padded windows can be larger than any image
};
Span span_of(std::int64_t out, std::int64_t in, std::int64_t size, std::int64_t stride, std::int64_t padding,
             bool whole) {
  const std::int64_t start = out * stride - padding;
  // Compared by difference: start + size can pass 63 bits, and so can in + padding - start.
  const std::int64_t begin = std::max<std::int64_t>(start, 0), end = size < in - start ? start + size : in;
  const std::int64_t padded = size - padding <= in - start ? size : in - start + padding;
  return {begin, end, static_cast<double>(whole ? padded : end - begin)};
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Pool> {
  const auto [size, stride, padding] = windows_of(op, stage.in);
  const Axes &in = stage.in.space, &out = stage.out.space;
  const bool whole = op.divides_by_whole_window();
  double* result = image.result;
  for (std::int64_t c = 0; c < stage.in.channels; ++c) {
    const double* plane = image.value + c * volume(in);
    for (std::int64_t od = 0; od < out[0]; ++od)
      for (std::int64_t oh = 0; oh < out[1]; ++oh)
        for (std::int64_t ow = 0; ow < out[2]; ++ow) {
          const Span d = span_of(od, in[0], size[0], stride[0], padding[0], whole);
          const Span h = span_of(oh, in[1], size[1], stride[1], padding[1], whole);
          const Span w = span_of(ow, in[2], size[2], stride[2], padding[2], whole);
          double folded = op.template start<double>();
          for (std::int64_t z = d.begin; z < d.end; ++z)
            for (std::int64_t y = h.begin; y < h.end; ++y)
              for (std::int64_t x = w.begin; x < w.end; ++x)
                folded = op.join(folded, plane[(z * in[1] + y) * in[2] + x]);
          *result++ = op.result(folded, d.counted * h.counted * w.counted);
        }
  }
}

}  // namespace

void run_stage(const Stage& stage, const Image& image) {
  std::visit([&](const auto& op) { run(op, stage, image); }, stage.op);
}

}  // namespace convt::core
