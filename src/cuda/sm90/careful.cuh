// SPDX-License-Identifier: Apache-2.0
// Sums where some weight is not finite: zeros outside the image must not meet it. Without tensor cores, and
// few sums at a time: speed is no matter, registers and the size of the code are.
#pragma once

#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// The input that a row of a block meets through a tap, at channel 0; null outside the image.
template <class E>
__device__ const E* input_at(const ConvParams& p, const Item& item, const int (&phase)[3], int block, int row,
                             int tap) {
  const E* from = static_cast<const E*>(p.input) + item.image * p.image_step;
  bool inside = true;
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    const int wrapped = axis.lead + phase[a] >= axis.stride;
    const int x = item.tile[a] * axis.tile + position_at(p, block, row, a) + wrapped - p.shifts[3 * tap + a];
    inside &= static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
    from += x * axis.step;
  }
  return inside ? from : nullptr;
}

template <class E, int n, int blocks>
__device__ void accumulate_carefully(const ConvParams& p, const Item& item, const int (&phase)[3], const Class& c,
                                     float (&sums)[blocks][n / 2]) {
  constexpr int channels = row_bytes / static_cast<int>(sizeof(E));
  const auto* const weights = static_cast<const E*>(p.weights) +
                              (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * n * channels;
  const int group = threadIdx.x / group_threads;
  constexpr int each = n == 64 ? 4 : n / 8, parts = n / 8 / each;
#pragma unroll 1
  for (int i = 0; i < 4 * blocks * parts; ++i) {
    const int part = i % parts, odd = i / parts % 2, half = i / parts / 2 % 2, b = i / parts / 4;
    float some[each] = {};
#pragma unroll 1
    for (int tap = 0; tap < c.taps; ++tap) {
      const E* const from = input_at<E>(p, item, phase, group * blocks + b, Sums<n>::row(half), c.first + tap);
      if (from == nullptr) continue;
#pragma unroll 1
      for (int channel = 0; channel < p.in_channels; ++channel) {
        const float x = rounded_value(from[channel * p.channel_step]);
        const E* const weight = weights +
                                (static_cast<std::int64_t>(channel) / channels * c.taps + tap) * n * channels +
                                weight_place<E>(Sums<n>::column(part * each) + odd, channel % channels);
#pragma unroll
        for (int k = 0; k < each; ++k) some[k] = fmaf(x, rounded_value(weight[k * 8 * channels]), some[k]);
      }
    }
#pragma unroll
    for (int own = 0; own < 4 * blocks * parts; ++own)
      if (own == i)
#pragma unroll
        for (int k = 0; k < each; ++k) sums[own / parts / 4][(own % parts * each + k) * 4 + own / parts % 4] = some[k];
  }
}

}  // namespace convt::core::cuda::sm90
