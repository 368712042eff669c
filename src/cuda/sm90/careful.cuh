// SPDX-License-Identifier: Apache-2.0
// Sums where some weight is not finite: zeros outside the image must not meet it. Without tensor cores, an input at a
// time: speed is no matter, registers are.
#pragma once

#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// The input that a row of a block meets through a tap, at channel 0; null outside the image.
template <class E>
__device__ const E* input_at(const ConvParams& p, const Item& item, const int (&phase)[3], int block, int row,
                             int tap) {
  const E* from = static_cast<const E*>(p.input) + item.image * p.image_step;
  bool inside = true;
  const RunRow in_run(p, block, row);
  const int at[3] = {0, in_run.h, in_run.w};
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    const int wrapped = axis.stride == 1 ? axis.lead + phase[a] : axis.lead + phase[a] >= axis.stride;
    const int position = p.run != 0 ? at[a] : position_at(p, block, row, a);
    const int x = item.tile[a] * axis.tile + position + wrapped - p.shifts[3 * tap + a];
    inside &= static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
    from += x * axis.step;
  }
  return inside ? from : nullptr;
}

// Into sums in memory, [block][n / 2]: out of the way of the code that matters. Taps of the first axis may be joined.
template <class E, int n, int joined>
__device__ __noinline__ void add_carefully(const ConvParams& p, const Item& item, int number, int d, int h, int w,
                                           int blocks, float* sums) {
  const Class& c = p.classes[number];
  const int channels = p.row_bytes / static_cast<int>(sizeof(E)), columns = joined * n;
  const int group = threadIdx.x / group_threads;
  const auto* const weights = static_cast<const E*>(p.weights) +
                              (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * columns * channels;
#pragma unroll 1
  for (int i = 0; i < blocks * 2 * c.taps * joined; ++i) {
    const int b = i / (2 * c.taps * joined), half = i / (c.taps * joined) % 2, tap = i / joined % c.taps;
    const int along = i % joined;
    const E* const from =
        input_at<E>(p, item, {d - along, h, w}, group * blocks + b, Sums<n>::row(half), c.first + tap);
    if (from == nullptr) continue;
#pragma unroll 1
    for (int channel = 0; channel < p.in_channels; ++channel) {
      const float x = rounded_value(from[channel * p.channel_step]);
      const E* const tile =
          weights + (static_cast<std::int64_t>(channel) / channels * c.taps + tap) * columns * channels;
#pragma unroll 1
      for (int k = 0; k < n / 4; ++k) {
        const int column = along * n + Sums<n>::column(k / 2) + k % 2;
        float& sum = sums[b * (n / 2) + k / 2 * 4 + half * 2 + k % 2];
        sum = fmaf(x, rounded_value(tile[weight_place<E>(column, channel % channels, p.row_bytes)]), sum);
      }
    }
  }
}
template <class E, int n, int joined, int blocks>
__device__ void accumulate_carefully(const ConvParams& p, const Item& item, int number, int d, int h, int w,
                                     float (&sums)[blocks][n / 2]) {
  float in_memory[blocks * n / 2] = {};
  add_carefully<E, n, joined>(p, item, number, d, h, w, blocks, in_memory);
#pragma unroll
  for (int i = 0; i < blocks * n / 2; ++i) sums[i / (n / 2)][i % (n / 2)] = in_memory[i];
}

}  // namespace convt::core::cuda::sm90
