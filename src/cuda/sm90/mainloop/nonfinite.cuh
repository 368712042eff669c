// SPDX-License-Identifier: Apache-2.0
// The non-finite-weight path: 0*Inf is NaN, so padding must skip such weights. It sums without tensor cores, one input
// at a time; registers matter here, speed does not.
#pragma once

#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/mainloop/fragment.cuh"

namespace convt::core::cuda::sm90 {

// The input that a row reads through a tap, at channel 0; null outside the image.
template <class E, class Layout>
__device__ const E* input_at(const ConvParams& p, const WorkTile& work, const int (&phase)[3], int m_tile, int row,
                             int tap) {
  const E* from = static_cast<const E*>(p.input) + work.image * p.image_step;
  bool inside = true;
  const RunRow in_run(p, m_tile * Layout::all + row);
  const int at[3] = {0, in_run.h, in_run.w};
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    const int wrapped = axis.stride == 1 ? axis.lead + phase[a] : axis.lead + phase[a] >= axis.stride;
    const int position = p.run != 0 ? at[a] : position_at<Layout::duplicated>(p, m_tile, row, a);
    const int x = work.tile[a] * axis.tile + position + wrapped - p.shifts[3 * tap + a];
    inside &= static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
    from += x * axis.step;
  }
  return inside ? from : nullptr;
}

// The position and the output channel of sum i of a thread.
template <int n, bool are_duplicated = false>
struct PositionsAsRows {
  static constexpr bool duplicated = are_duplicated;
  static constexpr int all = m_tile_rows;  // positions of a row tile
  static constexpr int count = n / 2;
  __device__ static int position(int i) { return Fragment<n>::row(i / 2 % 2); }
  __device__ static int channel(int i) { return Fragment<n>::column(i / 4) + i % 2; }
};
struct PositionsAsColumns {
  static constexpr bool duplicated = false;
  static constexpr int all = swapped_positions;
  static constexpr int count = swapped_positions / 2;
  __device__ static int position(int i) { return i / 4 * 8 + SwappedFragment::position() + i % 2; }
  __device__ static int channel(int i) { return SwappedFragment::channel(i / 2 % 2); }
};

// Sums into memory, [row tile][count], so that the main path keeps its registers. Taps of the first axis may be joined.
template <class E, int n, int joined, class Layout>
__device__ __noinline__ void add_nonfinite(const ConvParams& p, const WorkTile& work, int number, int d, int h, int w,
                                           int m_tiles, float* sums) {
  const Phase& c = p.phases[number];
  const int channels = p.row_bytes / operand_bytes<E>, columns = joined * n;
  const int group = threadIdx.x / group_threads;
  const auto* const weights =
      static_cast<const unsigned char*>(p.weights) +
      (static_cast<std::int64_t>(work.band) * p.taps + c.first_tap) * p.chunks * columns * p.row_bytes;
#pragma unroll 1
  for (int i = 0; i < m_tiles * Layout::count; ++i) {
    const int b = i / Layout::count, position = Layout::position(i % Layout::count);
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < c.taps * joined; ++k) {
      const int tap = k / joined, along = k % joined, column = along * n + Layout::channel(i % Layout::count);
      const E* const from =
          input_at<E, Layout>(p, work, {d - along, h, w}, group * m_tiles + b, position, c.first_tap + tap);
      if (from == nullptr) continue;
#pragma unroll 1
      for (int channel = 0; channel < p.in_channels; ++channel) {
        const unsigned char* const tile =
            weights + (static_cast<std::int64_t>(channel) / channels * c.taps + tap) * columns * p.row_bytes;
        sum = fmaf(rounded_value(from[channel * p.channel_step]),
                   packed_weight<E>(tile, column, channel % channels, p.row_bytes), sum);
      }
    }
    sums[i] = sum;
  }
}
template <class E, int n, int joined, class Layout, int m_tiles>
__device__ void accumulate_nonfinite(const ConvParams& p, const WorkTile& work, int number, int d, int h, int w,
                                     float (&sums)[m_tiles][Layout::count]) {
  float in_memory[m_tiles * Layout::count] = {};
  add_nonfinite<E, n, joined, Layout>(p, work, number, d, h, w, m_tiles, in_memory);
#pragma unroll
  for (int i = 0; i < m_tiles * Layout::count; ++i) sums[i / Layout::count][i % Layout::count] = in_memory[i];
}

// Replaces add_nonfinite() in kernels with a range guard. They never call it, but ptxas must not know that: see
// has_nonfinite_weights().
__device__ __noinline__ inline void add_nothing(int count, float* sums) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) sums[i] = 0;
}
template <int m_tiles, int count>
__device__ void accumulate_nothing(float (&sums)[m_tiles][count]) {
  float in_memory[m_tiles * count];
  add_nothing(m_tiles * count, in_memory);
#pragma unroll
  for (int i = 0; i < m_tiles * count; ++i) sums[i / count][i % count] = in_memory[i];
}

}  // namespace convt::core::cuda::sm90
