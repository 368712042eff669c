// SPDX-License-Identifier: Apache-2.0
// Sums where some weight is not finite: zeros outside the image must not meet it. Without tensor cores, an input at a
// time: speed is no matter, registers are.
#pragma once

#include "cuda/sm90/wide.cuh"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// The input that a row of a block meets through a tap, at channel 0; null outside the image.
template <class E, class Places>
__device__ const E* input_at(const ConvParams& p, const Item& item, const int (&phase)[3], int block, int row,
                             int tap) {
  const E* from = static_cast<const E*>(p.input) + item.image * p.image_step;
  bool inside = true;
  const RunRow in_run(p, block * Places::all + row);
  const int at[3] = {0, in_run.h, in_run.w};
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    const int wrapped = axis.stride == 1 ? axis.lead + phase[a] : axis.lead + phase[a] >= axis.stride;
    const int position = p.run != 0 ? at[a] : position_at<Places::twins>(p, block, row, a);
    const int x = item.tile[a] * axis.tile + position + wrapped - p.shifts[3 * tap + a];
    inside &= static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
    from += x * axis.step;
  }
  return inside ? from : nullptr;
}

// Which position and which output channel of a band sum i of a thread is.
template <int n, bool are_twins = false>
struct PositionsAsRows {
  static constexpr bool twins = are_twins;
  static constexpr int all = block_rows;  // positions of a block
  static constexpr int count = n / 2;
  __device__ static int position(int i) { return Sums<n>::row(i / 2 % 2); }
  __device__ static int channel(int i) { return Sums<n>::column(i / 4) + i % 2; }
};
struct PositionsAsColumns {
  static constexpr bool twins = false;
  static constexpr int all = wide_positions;
  static constexpr int count = wide_positions / 2;
  __device__ static int position(int i) { return i / 4 * 8 + WideSums::position() + i % 2; }
  __device__ static int channel(int i) { return WideSums::channel(i / 2 % 2); }
};

// Into sums in memory, [block][count]: out of the way of the code that matters. Taps of the first axis may be joined.
template <class E, int n, int joined, class Places>
__device__ __noinline__ void add_carefully(const ConvParams& p, const Item& item, int number, int d, int h, int w,
                                           int blocks, float* sums) {
  const Class& c = p.classes[number];
  const int channels = p.row_bytes / static_cast<int>(sizeof(E)), columns = joined * n;
  const int group = threadIdx.x / group_threads;
  const auto* const weights = static_cast<const E*>(p.weights) +
                              (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * columns * channels;
#pragma unroll 1
  for (int i = 0; i < blocks * Places::count; ++i) {
    const int b = i / Places::count, position = Places::position(i % Places::count);
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < c.taps * joined; ++k) {
      const int tap = k / joined, along = k % joined, column = along * n + Places::channel(i % Places::count);
      const E* const from =
          input_at<E, Places>(p, item, {d - along, h, w}, group * blocks + b, position, c.first + tap);
      if (from == nullptr) continue;
#pragma unroll 1
      for (int channel = 0; channel < p.in_channels; ++channel) {
        const E* const tile =
            weights + (static_cast<std::int64_t>(channel) / channels * c.taps + tap) * columns * channels;
        sum = fmaf(rounded_value(from[channel * p.channel_step]),
                   rounded_value(tile[weight_place<E>(column, channel % channels, p.row_bytes)]), sum);
      }
    }
    sums[i] = sum;
  }
}
template <class E, int n, int joined, class Places, int blocks>
__device__ void accumulate_carefully(const ConvParams& p, const Item& item, int number, int d, int h, int w,
                                     float (&sums)[blocks][Places::count]) {
  float in_memory[blocks * Places::count] = {};
  add_carefully<E, n, joined, Places>(p, item, number, d, h, w, blocks, in_memory);
#pragma unroll
  for (int i = 0; i < blocks * Places::count; ++i) sums[i / Places::count][i % Places::count] = in_memory[i];
}

// Instead of that where it is never asked for (f16 in place of tf32), which ptxas must not know.
__device__ __noinline__ inline void add_nothing(int count, float* sums) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) sums[i] = 0;
}
template <int blocks, int count>
__device__ void accumulate_nothing(float (&sums)[blocks][count]) {
  float in_memory[blocks * count];
  add_nothing(blocks * count, in_memory);
#pragma unroll
  for (int i = 0; i < blocks * count; ++i) sums[i / count][i % count] = in_memory[i];
}

}  // namespace convt::core::cuda::sm90
