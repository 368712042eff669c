// SPDX-License-Identifier: Apache-2.0
// Results on their way to the output: consumers put them into shared memory, [channel][position], and go on; a
// warpgroup of writers takes them from there, with stores that are long along the output's rows. A consumer's own
// stores would be of 8 neighbours, and waited for.
#pragma once

#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/rings.cuh"
#include "cuda/sm90/store.cuh"

namespace convt::core::cuda::sm90 {

// Behind the lines of a chain.
template <class E, int columns>
__device__ E* staged_in(unsigned char* memory) {
  return reinterpret_cast<E*>(memory + lines_bytes(columns));
}

// All threads of a warp of consumers, before and behind what they stage.
__device__ inline void wait_for_staging(const Shared& shared, int parity) {
  wait_together(shared.staged_empty(), parity ^ 1);
}
// Every lane tells of its own, as with slots.
__device__ inline void hand_on_staged(const Shared& shared, int& parity) {
  arrive(shared.staged_full());
  parity ^= 1;
}
// And of writers, behind what they have read: every lane, again.
__device__ inline void release_staged(const Shared& shared) { arrive(shared.staged_empty()); }

// What a thread of the writers takes of every channel: a few places, in elements of a channel's line and of the output.
struct WriterParts {
  static constexpr int count = 4;
  std::int64_t to[count];
  int from[count];
  bool inside[count];
};

// `per` neighbours each; warps take channels in turn.
template <int per, class E>
__device__ void write_parts(const WriterParts& parts, const E* staged, int pitch, int channels, E* to,
                            std::int64_t channel_step) {
  struct alignas(per * sizeof(E)) Neighbours {
    E of[per];
  };
  const int warp = static_cast<int>(threadIdx.x) / warp_threads % group_warps;
  to += warp * channel_step;
#pragma unroll 1
  for (int c = warp; c < channels; c += group_warps) {
    Neighbours x[WriterParts::count];
#pragma unroll
    for (int k = 0; k < WriterParts::count; ++k)
      x[k] = *reinterpret_cast<const Neighbours*>(staged + c * pitch + parts.from[k]);
#pragma unroll
    for (int k = 0; k < WriterParts::count; ++k) {
      if (!parts.inside[k]) continue;
      auto* const own = reinterpret_cast<Neighbours*>(to + parts.to[k]);
      if constexpr (per * sizeof(E) >= sizeof(float))
        store_result(own, x[k]);
      else
        *own = x[k];  // odd ones, of which the L2 cache must keep what it has of a sector until the others come
    }
    to += group_warps * channel_step;
  }
}

}  // namespace convt::core::cuda::sm90
