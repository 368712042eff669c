// SPDX-License-Identifier: Apache-2.0
// The epilogue of any chain: the strip of shared memory in which cuda/chain runs it.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/sm90/mainloop/fragment.cuh"
#include "cuda/sm90/pipeline/shared_memory.cuh"
#include "cuda/sm90/store/policy.cuh"

namespace convt::core::cuda::sm90 {

// A strip of the positions of all warpgroups' row tiles.
template <int n>
__device__ Strip<float> strip_at(const ConvParams& p, const WorkTile& work, int log_pixels, unsigned char* memory) {
  Strip<float> strip = strip_in<float>(memory, log_pixels);
  strip.data = reinterpret_cast<float*>(memory + strip_shared<float>(strip.pixels()));
  strip.pitch = strip.pixels() + 1;
  strip.first_channel = work.band * n;
  strip.channels = min(n, p.out_channels - work.band * n);
  return strip;
}

__device__ inline void run_strip(const ConvParams& p, const Strip<float>& strip) {
  sync_strip();
  run_chain(p.chain, strip, p.to);
  sync_strip();
}

// Finishes one row tile of each warpgroup.
template <int n>
__device__ void finish_in_strip(const ConvParams& p, const WorkTile& work, int phase, const float (&sums)[n / 2],
                                unsigned char* memory) {
  const Strip<float> strip = strip_at<n>(p, work, 7, memory);
  const int group = threadIdx.x / group_threads;
  if (threadIdx.x < strip.pixels())
    const_cast<Pixel*>(strip.at)[threadIdx.x] =
        pixel_at(p, work, phase, threadIdx.x / m_tile_rows, threadIdx.x % m_tile_rows);
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      strip(Fragment<n>::column(i) + k % 2, group * m_tile_rows + Fragment<n>::row(k / 2)) = sums[4 * i + k];
  run_strip(p, strip);
}

// The chain itself stores.
struct StripStore {
  static constexpr bool has_spare_register = true;
  template <class Traits>
  __device__ static __forceinline__ void find_offsets(const ConvParams&, const Memory&) {}
};
template <>
struct StoreOf<Store::strip> {
  using Policy = StripStore;
};

}  // namespace convt::core::cuda::sm90
