// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/span.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/dtype.hpp"
#include "cuda/chain/span_sizes.hpp"

namespace convt::core::cuda {
namespace {

// Compares steps along d, h and w. Axes of one element do not count.
struct Along {
  const Strides& step;
  const int (&size)[3];

  bool are(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return (size[0] == 1 || step.d == d) && (size[1] == 1 || step.h == h) && (size[2] == 1 || step.w == w);
  }
  bool dense() const { return are(std::int64_t{size[1]} * size[2], size[2], 1); }
  bool constant() const { return are(0, 0, 0); }
};

bool view(void* data, const Strides& step, convt_dtype dtype, const ChainParams& p, SpanView& to) {
  const Along along{step, p.size};
  to = {data, dtype, along.dense(), step.n, step.c};
  return to.along || along.constant();
}

// Binds the regions of a norm. A region has all of space, a plane or a row.
bool regions(const ChainStep& step, const ChainParams& p, SpanStep& to) {
  const Along along{step.step, p.size};
  const int pixels = p.size[0] * p.size[1] * p.size[2];
  if (along.constant())
    to.inner = pixels;
  else if (along.are(1, 0, 0))
    to.inner = p.size[1] * p.size[2];
  else if (along.are(p.size[1], 1, 0))
    to.inner = p.size[2];
  else
    return false;
  to.data = {const_cast<void*>(step.data[0]), CONVT_F32, false, step.step.n, step.step.c};
  to.second = step.data[1];
  to.channels_each = step.channels_each;
  if (step.weight[0] == nullptr) return true;
  const Along inside{step.weight_step, p.size};
  const std::int64_t h = p.size[2], d = h * p.size[1];
  const bool dense = to.inner == pixels ? inside.dense() : to.inner == d ? inside.are(0, h, 1) : inside.are(0, 0, 1);
  for (int i = 0; i < 2; ++i) to.weight[i] = step.weight[i];
  to.weight_c = step.weight_step.c;
  to.data.dtype = step.dtype;
  return dense;
}

bool bind(const ChainStep& step, const ChainParams& p, SpanStep& to) {
  to.kind = step.kind;
  to.op = step.op;
  std::memcpy(&to.params, &step.params, sizeof to.params);
  switch (step.kind) {
    case ChainStep::affine:
      to.data = {const_cast<void*>(step.data[0]), CONVT_F32, false, 0, 1};
      to.second = step.data[1];
      return true;
    case ChainStep::pointwise:
      return true;
    case ChainStep::combine:
      return step.data[0] == nullptr || view(const_cast<void*>(step.data[0]), step.step, step.dtype, p, to.data);
    case ChainStep::map_space:
      return regions(step, p, to);
    case ChainStep::map_channels:
    case ChainStep::reduce_channels:
      break;
  }
  return false;
}

}  // namespace

// Binds everything except `spans.from`.
bool make_results(const ChainParams& p, SpanParams& spans) {
  const std::int64_t pixels = std::int64_t{p.size[0]} * p.size[1] * p.size[2];
  if (pixels > most_span_pixels) return false;
  if (!view(p.to.data, p.to.step, p.to.dtype, p, spans.to) || !spans.to.along) return false;
  spans.images = p.images;
  spans.channels = p.channels;
  spans.pixels = static_cast<int>(pixels);
  spans.chain.count = p.chain.count;
  for (int i = 0; i < p.chain.count; ++i)
    if (!bind(p.chain.steps[i], p, spans.chain.steps[i])) return false;
  return true;
}

bool make_spans(const ChainParams& p, SpanParams& spans) {
  return p.pool.op < 0 && view(p.from.data, p.from.step, p.from.dtype, p, spans.from) && make_results(p, spans);
}

bool make_pool_spans(const ChainParams& p, PoolSpanParams& pool) {
  constexpr std::int64_t most = most_span_pixels;
  if (p.pool.op < 0 || !make_results(p, pool.span)) return false;
  pool.span.from = {p.from.data, p.from.dtype, p.from.step.w == 1, p.from.step.n, p.from.step.c};
  pool.d = p.from.step.d;
  pool.h = p.from.step.h;
  pool.op = p.pool.op;
  pool.whole_window = p.pool.whole_window;
  pool.params = p.pool.params;
  for (int a = 0; a < 3; ++a) {
    const PoolAxis& axis = p.pool.axis[a];
    const std::int64_t start = axis.start - axis.origin, last = (p.size[a] - 1) * axis.stride;
    if (std::max({std::abs(start), axis.stride, axis.size, axis.padding, last, axis.origin}) > most) return false;
    pool.axis[a] = {static_cast<int>(start),
                    static_cast<int>(axis.stride),
                    static_cast<int>(axis.size),
                    static_cast<int>(-axis.origin),
                    static_cast<int>(std::min(axis.in - axis.origin, most)),
                    static_cast<int>(axis.padding),
                    p.size[a]};
  }
  return pool.span.from.along;
}

std::int64_t chunks_of(std::int64_t elements, convt_dtype dtype) {
  const std::int64_t values = span_bytes / static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t slots = (elements + values - 2) / values + 1;  // at most, wherever the first slot begins
  return (slots + chunk_slots - 1) / chunk_slots;
}

}  // namespace convt::core::cuda
