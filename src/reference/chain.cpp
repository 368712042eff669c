// SPDX-License-Identifier: Apache-2.0
#include "reference/chain.hpp"

#include <algorithm>

namespace convt::core {
namespace {

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Pointwise> {
  const std::int64_t count = stage.in.channels * volume(stage.in.space);
  for (std::int64_t i = 0; i < count; ++i) image.result[i] = op.apply(image.value[i]);
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Combine> {
  const std::int64_t pixels = volume(stage.in.space);
  for (std::int64_t c = 0; c < stage.in.channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) {
      const std::int64_t i = c * pixels + p;
      const double other = op.term.kind == Term::scalar    ? op.term.number
                           : op.term.kind == Term::channel ? image.operands[0].at(c)
                           : op.term.kind == Term::tensor  ? image.operands[0].at(c, p)
                                                           : image.conv[i];
      image.result[i] = op.apply(image.value[i], other);
    }
}

struct Statistics {
  double centre = 0, scale = 0;
};

// Over `count` elements, `step` apart.
template <class T>
Statistics statistics(const T& op, const double* x, std::int64_t count, std::int64_t step) {
  const auto n = static_cast<double>(count);
  double folded = op.template start<double>();
  for (std::int64_t i = 0; i < count; ++i) folded = op.join(folded, x[i * step]);
  Statistics s{op.centre(folded, n), 0};
  if constexpr (std::derived_from<T, ops::Norm>) {
    // The rounded mean of equal values can miss them by an ulp, which a norm then magnifies by 1/sqrt(eps). The mean of
    // what is left corrects it, to the value itself.
    double rest = 0;
    for (std::int64_t i = 0; i < count; ++i) rest += x[i * step] - s.centre;
    s.centre += rest / n;
  }
  if constexpr (T::two_pass) {
    double total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += op.deviation(x[i * step], s.centre);
    s.scale = op.scale(total, n);
  }
  return s;
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Reduce> {
  const std::int64_t pixels = volume(stage.in.space);
  for (std::int64_t p = 0; p < pixels; ++p) {
    const Statistics s = statistics(op, image.value + p, stage.in.channels, pixels);
    image.result[p] = op.result(s.centre, s.scale);
  }
}

template <class T>
void run(const T& op, const Stage& stage, const Image& image) requires std::derived_from<T, Normalise> {
  const Region region = op.region();
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
      s = statistics(op, image.value + first, count, step);
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
