// SPDX-License-Identifier: Apache-2.0
// Moments of the regions of a norm over space.
#pragma once

#include <algorithm>

#include "cpu/simd/value-inl.hpp"
#include "cpu/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// Sums of x - centre and of its square, in T over at most this many elements, which are then added in double.
template <class T>
inline constexpr std::int64_t summed_most = 16 * Four<T>::lanes;

struct Sums {
  double first = 0, second = 0;
};

template <class T>
HWY_INLINE double total(Four<T> many) {
  using V = Values<T>;
  T lanes[V::lanes];
  ((many.low.low + many.low.high) + (many.high.low + many.high.high)).store(lanes);
  double sum = 0;
  for (const T lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

template <bool squares, class T>
HWY_NOINLINE Sums sum_row(const T* x, std::int64_t count, T centre) {
  Sums sums;
  const Four<T> middle(static_cast<double>(centre));
  while (count >= Four<T>::lanes) {
    Four<T> first(0), second(0);
    std::int64_t i = 0;
    for (; i + Four<T>::lanes <= std::min(count, summed_most<T>); i += Four<T>::lanes) {
      const Four<T> deviation = Four<T>::load(x + i) - middle;
      first = first + deviation;
      if constexpr (squares) second = second + deviation * deviation;
    }
    sums.first += total<T>(first);
    if constexpr (squares) sums.second += total<T>(second);
    x += i;
    count -= i;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const double deviation = static_cast<double>(x[i]) - static_cast<double>(centre);
    sums.first += deviation;
    if constexpr (squares) sums.second += deviation * deviation;
  }
  return sums;
}

// `rows` rows of `count` elements, `step` apart.
template <class T>
struct Share {
  const T* data;
  std::int64_t rows, step, count;
};

template <bool squares, class T>
Sums sums_of(const Share<T>& share, T centre) {
  Sums sums;
  for (std::int64_t r = 0; r < share.rows; ++r) {
    const Sums row = sum_row<squares>(share.data + r * share.step, share.count, centre);
    sums.first += row.first;
    sums.second += row.second;
  }
  return sums;
}

template <class T>
Moments moments_of(const Share<T>& share) {
  const double count = static_cast<double>(share.rows) * static_cast<double>(share.count);
  const auto centre = static_cast<T>(sums_of<false>(share, T(0)).first / count);
  const Sums rest = sums_of<true>(share, centre);
  // What the rounded mean has put in is taken out again.
  const double correction = rest.first / count;
  return {count, static_cast<double>(centre) + correction, std::max(rest.second - rest.first * correction, 0.0)};
}

template <class T>
void measure(const BoundStep<T>& step, const Tile<T>& tile, Moments* moments) {
  const Regions& regions = step.regions;
  std::int64_t outer = 1;
  for (int axis = 0; axis < regions.axes; ++axis) outer *= tile.box.size[static_cast<std::size_t>(axis)];
  const std::int64_t inner = tile.box.pixels() / outer;
  for (std::int64_t c = 0; c < tile.channels; c += regions.channels_each)
    for (std::int64_t r = 0; r < outer; ++r)
      *moments++ = moments_of(
          Share<T>{tile.data + c * tile.channel_step + r * inner, regions.channels_each, tile.channel_step, inner});
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
