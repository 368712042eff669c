// SPDX-License-Identifier: Apache-2.0
// Results on their way to the output: consumers put them into shared memory, [channel][position], and go on; a
// warpgroup of writers takes them from there, with stores that are long along the output's rows. A consumer's own
// stores would be of 8 neighbours, and waited for.
#pragma once

#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/rings.cuh"

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

}  // namespace convt::core::cuda::sm90
