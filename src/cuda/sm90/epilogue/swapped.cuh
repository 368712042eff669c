// SPDX-License-Identifier: Apache-2.0
// Swapped operands (swap-AB): rows are output channels and columns positions. A norm would have to cross warps, so only
// chains without one run here.
//
// Two matrix instructions with 64 columns read shared memory without a pause. One with 128 columns reads three quarters
// as often, which leaves producers and writers time. Results are staged, and a warpgroup of writers stores them row by
// row while the next tile is multiplied.
#pragma once

#include "cuda/sm90/epilogue/activation.cuh"
#include "cuda/sm90/epilogue/scale_bias.cuh"
#include "cuda/sm90/store/staging.cuh"
#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// A register epilogue without a norm. Each part runs on all positions: a branch for each group of 8 would take longer
// than most parts.
struct SwappedEpilogue {
  static constexpr int count = swapped_positions / 2;
  const RegisterEpilogue& chain;
  const ScaleBiasTable<swapped_channels>& table;

  __device__ void run(float (&x)[count]) const {
    apply_scale_bias(RegisterEpilogue::before_norm, x);
    if (chain.empty) return;
    apply_scale_bias(RegisterEpilogue::after_norm, x);
    with_activation(
        chain,
        [&] {
#pragma unroll
          for (int i = 0; i < count; i += SwappedFragment::each)
            apply_gelu<gelu_degree, SwappedFragment::each>(chain.q, x + i);
        },
        [&] {
#pragma unroll
          for (float& v : x) v = maximum(v, 0.0f);
        });
    apply_scale_bias(RegisterEpilogue::last, x);
  }

 private:
  __device__ void apply_scale_bias(RegisterEpilogue::Position position, float (&x)[count]) const {
    if (!chain.scale_bias[position].present) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 both = table.data[position * swapped_channels + SwappedFragment::channel(half)];
#pragma unroll
      for (int i = 0; i < count; i += SwappedFragment::each)
#pragma unroll
        for (int k = 2 * half; k < 2 * half + 2; ++k) x[i + k] = fmaf(both.x, x[i + k], both.y);
    }
  }
};

// Stages a warpgroup's tile: [channel][tile][column].
template <class E>
__device__ void stage_m_tile(const float (&results)[swapped_positions / 2], E* staged) {
  E* const to = staged + SwappedFragment::channel(0) * swapped_pitch + threadIdx.x / group_threads * swapped_positions +
                SwappedFragment::position();
#pragma unroll
  for (int i = 0; i < SwappedFragment::groups; ++i) {
    const float* const x = results + i * SwappedFragment::each;
    *reinterpret_cast<Pair<E>*>(to + 8 * i) = pair_of<E>(x[0], x[1]);
    *reinterpret_cast<Pair<E>*>(to + 8 * i + 8 * swapped_pitch) = pair_of<E>(x[2], x[3]);
  }
}

}  // namespace convt::core::cuda::sm90
