// SPDX-License-Identifier: Apache-2.0
// Norms and reductions over the channels of each pixel: vectors of pixels, loops over channels.
#pragma once

#include "cpu/simd/ops-inl.hpp"
#include "cpu/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// `count` pixels of a tile, from pixel `begin` of its box on, and some of its channels: small enough for L1.
template <class T>
struct Strip {
  T* data = nullptr;
  std::int64_t channel_step = 0, first_channel = 0, channels = 0;
  const Box* box = nullptr;
  std::int64_t begin = 0, count = 0;
  const T* conv = nullptr;  // the same pixels and channels of the convolution's result
  std::int64_t conv_step = 0;

  T* row(std::int64_t channel) const { return data + channel * channel_step; }
};

// The channels of as many pixels as V has lanes, or as Part says.
template <class V>
struct Column {
  typename V::Lane* data;
  std::int64_t step, channels;
  HWY_INLINE V load(std::int64_t c) const { return V::load(data + c * step); }
  HWY_INLINE void store(V x, std::int64_t c) const { x.store(data + c * step); }
};
template <class T>
struct PartColumn {
  T* data;
  std::int64_t step, channels;
  Part<T> part;
  HWY_INLINE Values<T> load(std::int64_t c) const { return part.load(data + c * step); }
  HWY_INLINE void store(Values<T> x, std::int64_t c) const { part.store(x, data + c * step); }
};

template <class V>
struct Statistics {
  V centre, scale;
};

// As in src/reference/chain.cpp; but the rounded mean of a norm is corrected without a pass of its own, by the sum of
// what is left, which also takes from the squares what the wrong mean had put in.
template <class V, class C, class Op>
HWY_INLINE Statistics<V> statistics(const Op& op, const C& column) {
  const V count(static_cast<double>(column.channels));
  V folded = op.template start<V>(), other = folded;
  std::int64_t c = 0;
  for (; c + 2 <= column.channels; c += 2) {
    folded = op.join(folded, column.load(c));
    other = op.join(other, column.load(c + 1));
  }
  if (c < column.channels) folded = op.join(folded, column.load(c));
  Statistics<V> s{op.centre(op.join(folded, other), count), V(0)};
  if constexpr (Op::two_pass) {
    V total(0), rest(0);
    for (c = 0; c < column.channels; ++c) {
      const V x = column.load(c);
      total = total + op.deviation(x, s.centre);
      if constexpr (std::derived_from<Op, twins::Norm>) rest = rest + (x - s.centre);
    }
    if constexpr (std::derived_from<Op, twins::Norm>) {
      const V correction = rest / count;
      s.centre = s.centre + correction;
      total = maximum(total - rest * correction, V(0));
    }
    s.scale = op.scale(total, count);
  }
  return s;
}

template <class V, class C, class Op>
HWY_INLINE void normalise_column(const Op& op, const C& column) {
  const Statistics<V> s = statistics<V>(op, column);
  for (std::int64_t c = 0; c < column.channels; ++c) column.store(op.map(column.load(c), s.centre, s.scale), c);
}

template <class V, class C, class Op>
HWY_INLINE void reduce_column(const Op& op, const C& column) {
  const Statistics<V> s = statistics<V>(op, column);
  column.store(op.result(s.centre, s.scale), 0);
}

template <class T, class Op>
HWY_NOINLINE void normalise_channels(const Op op, const Strip<T>& strip) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + Four<T>::lanes <= strip.count; i += Four<T>::lanes)
    normalise_column<Four<T>>(op, Column<Four<T>>{strip.data + i, strip.channel_step, strip.channels});
  for (; i < strip.count; i += V::lanes)
    normalise_column<V>(op, PartColumn<T>{strip.data + i, strip.channel_step, strip.channels,
                                          Part<T>(std::min(V::lanes, strip.count - i))});
}

template <class T, class Op>
HWY_NOINLINE void reduce_channels(const Op op, const Strip<T>& strip) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + Four<T>::lanes <= strip.count; i += Four<T>::lanes)
    reduce_column<Four<T>>(op, Column<Four<T>>{strip.data + i, strip.channel_step, strip.channels});
  for (; i < strip.count; i += V::lanes)
    reduce_column<V>(op, PartColumn<T>{strip.data + i, strip.channel_step, strip.channels,
                                       Part<T>(std::min(V::lanes, strip.count - i))});
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
