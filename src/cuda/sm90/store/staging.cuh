// SPDX-License-Identifier: Apache-2.0
// Staging: consumers put results into shared memory, [channel][position], and continue. A warpgroup of writers stores
// them in long runs along the output's rows. A consumer's own stores would cover 8 neighbours, and it would wait for
// them.
#pragma once

#include "cuda/sm90/pipeline/shared_memory.cuh"
#include "cuda/sm90/store/policy.cuh"

namespace convt::core::cuda::sm90 {

// The staging buffer follows the scale and bias.
template <class E, int columns>
__device__ E* staged_in(unsigned char* memory) {
  return reinterpret_cast<E*>(memory + scale_bias_bytes(columns));
}

// All threads of a consumer warp call it before they stage results.
__device__ inline void staging_acquire(const Shared& shared, int parity) {
  wait_converged(shared.staged_empty(), parity ^ 1);
}
// All threads of a consumer warp call it after they staged results. Every lane arrives, as in producer_commit().
__device__ inline void staging_commit(const Shared& shared, int& parity) {
  arrive(shared.staged_full());
  parity ^= 1;
}
// All threads of the writers call it after their loads.
__device__ inline void staging_release(const Shared& shared) { arrive(shared.staged_empty()); }

// The writers find their own offsets.
struct StagedStore {
  static constexpr bool has_spare_register = true;
  template <class Traits>
  __device__ static __forceinline__ void find_offsets(const ConvParams&, const Memory&) {}
};
template <>
struct StoreOf<Store::staged_tiles> {
  using Policy = StagedStore;
};
template <>
struct StoreOf<Store::staged_planes> {
  using Policy = StagedStore;
};

}  // namespace convt::core::cuda::sm90
