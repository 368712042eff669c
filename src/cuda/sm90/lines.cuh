// SPDX-License-Identifier: Apache-2.0
// Lines of short chains: x = a*x + b by channel, from shared memory. Loads from global memory would wait for the L2
// cache each time: the input streams through what the L1 cache has left.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// Of one band: [line][column], a and b of a column side by side; anything finite for columns that are not there.
template <int n>
struct Lines {
  float2* data;

  // By so many threads: all consumers, or a warpgroup. undo: as ConvParams has it, or null.
  template <int threads>
  __device__ void fill(const ShortChain& chain, int band, int channels, const float* undo) const {
    int first = threadIdx.x;
    forget(first);  // or what follows from it is kept from band to band
    if (threads == group_threads) first %= group_threads;
#pragma unroll 1
    for (int i = first; i < ShortChain::places * n; i += threads) {
      const ShortChain::Line& line = chain.lines[i / n];
      const int channel = band * n + i % n;
      float2 to{line.a_times, 0};  // for all bands where no line goes by channel
      if (line.a != nullptr) to = {0, 0};
      if (line.a != nullptr && channel < channels)
        to = {line.a_times * line.a[channel], line.b_times * line.b[channel]};
      if (undo != nullptr && i / n == ShortChain::before_norm && channel < channels) to.x *= undo[channel];
      data[i] = to;
    }
  }

  // Two neighbouring columns of this thread.
  __device__ float4 at(int place, int pair) const {
    int thread = threadIdx.x;
    forget(thread);  // or it is looked up where no line is
    return reinterpret_cast<const float4*>(data)[(place * n + Sums<n>::column(pair, thread)) / 2];
  }
};

// Of the chain before a fold, and of the one behind it.
template <int n>
__device__ Lines<n> lines_in(unsigned char* memory, int number = 0) {
  return {reinterpret_cast<float2*>(memory + number * lines_bytes(n))};
}

// Which of a fold's chains: the one before it, the one behind it, both.
enum WhichChains : int { first_chain = 1, second_chain = 2, both_chains = 3 };

// For a band, if others are there. All consumers call it, or all writers: so many threads.
template <int n, int threads, int barrier = 1>
__device__ void fill_lines(const ConvParams& p, int band, int& filled, unsigned char* memory, WhichChains chains) {
  if (filled >= 0 && (band == filled || !p.lines_by_channel)) return;
  filled = band;
  sync_some<barrier, threads>();
  if ((chains & first_chain) != 0)
    lines_in<n>(memory).template fill<threads>(p.quick, band, p.out_channels, p.undo_behind ? nullptr : p.undo);
  if ((chains & second_chain) != 0)
    lines_in<n>(memory, 1).template fill<threads>(p.behind, band, p.out_channels, p.undo_behind ? p.undo : nullptr);
  sync_some<barrier, threads>();
}

// Of two columns, in both rows of every block: those at `first` and on.
template <int joint, int blocks, int count>
__device__ void apply_line(const float4& line, float (&x)[joint][blocks][count], int first = 0) {
#pragma unroll
  for (auto& phase : x)
#pragma unroll
    for (auto& block : phase)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const pair = block + first + 2 * half;
        pair[0] = fmaf(line.x, pair[0], line.y);
        pair[1] = fmaf(line.z, pair[1], line.w);
      }
}

}  // namespace convt::core::cuda::sm90
