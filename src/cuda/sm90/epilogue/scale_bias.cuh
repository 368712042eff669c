// SPDX-License-Identifier: Apache-2.0
// Scale and bias of register epilogues: x = a*x + b by channel, from shared memory. Loads from global memory would wait
// for the L2 cache each time, as the input streams through the L1 cache.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/sm90/mainloop/fragment.cuh"

namespace convt::core::cuda::sm90 {

// The values of one band: [position in the chain][column], a and b side by side; any finite values for columns past the
// last channel.
template <int n>
struct ScaleBiasTable {
  float2* data;

  // Called by `threads` threads: all consumers, or a warpgroup. undo: ConvParams::undo, or null.
  template <int threads>
  __device__ void fill(const RegisterEpilogue& chain, int band, int channels, const float* undo) const {
    int first = threadIdx.x;
    opaque(first);  // recomputed, to save registers
    if (threads == group_threads) first %= group_threads;
#pragma unroll 1
    for (int i = first; i < RegisterEpilogue::positions * n; i += threads) {
      const RegisterEpilogue::ScaleBias& line = chain.scale_bias[i / n];
      const int channel = band * n + i % n;
      float2 to{line.a_times, 0};  // the same for all bands if nothing goes by channel
      if (line.a != nullptr) to = {0, 0};
      if (line.a != nullptr && channel < channels)
        to = {line.a_times * line.a[channel], line.b_times * line.b[channel]};
      if (undo != nullptr && i / n == RegisterEpilogue::before_norm && channel < channels) to.x *= undo[channel];
      data[i] = to;
    }
  }

  // Two neighbouring columns of this thread.
  __device__ float4 at(int position, int pair) const {
    int thread = threadIdx.x;
    opaque(thread);  // recomputed, to save registers
    return reinterpret_cast<const float4*>(data)[(position * n + Fragment<n>::column(pair, thread)) / 2];
  }
};

// The table of the epilogue before a fold (number 0) or after it (1).
template <int n>
__device__ ScaleBiasTable<n> scale_bias_in(unsigned char* memory, int number = 0) {
  return {reinterpret_cast<float2*>(memory + number * scale_bias_bytes(n))};
}

// The epilogues of a fold: the one before it, the one after it, or both.
enum WhichChains : int { first_chain = 1, second_chain = 2, both_chains = 3 };

// Fills in a band, unless the tables have it: `filled` is the last band. `threads` threads call it: all consumers, or
// all writers.
template <int n, int threads, int barrier = 1>
__device__ void fill_scale_bias(const ConvParams& p, int band, int& filled, unsigned char* memory, WhichChains chains) {
  if (filled >= 0 && (band == filled || !p.scale_bias_by_channel)) return;
  filled = band;
  sync_some<barrier, threads>();
  if ((chains & first_chain) != 0)
    scale_bias_in<n>(memory).template fill<threads>(p.epilogue, band, p.out_channels,
                                                    p.undo_after_fold ? nullptr : p.undo);
  if ((chains & second_chain) != 0)
    scale_bias_in<n>(memory, 1).template fill<threads>(p.after_fold, band, p.out_channels,
                                                       p.undo_after_fold ? p.undo : nullptr);
  sync_some<barrier, threads>();
}

// Applies scale and bias to two columns, from `first` on, in both rows of every row tile.
template <int joint, int m_tiles, int count>
__device__ void apply_scale_bias(const float4& line, float (&x)[joint][m_tiles][count], int first = 0) {
#pragma unroll
  for (auto& phase : x)
#pragma unroll
    for (auto& m_tile : phase)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const pair = m_tile + first + 2 * half;
        pair[0] = fmaf(line.x, pair[0], line.y);
        pair[1] = fmaf(line.z, pair[1], line.w);
      }
}

}  // namespace convt::core::cuda::sm90
