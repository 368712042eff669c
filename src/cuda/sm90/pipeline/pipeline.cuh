// SPDX-License-Identifier: Apache-2.0
// The rings between producers, consumers and writers: barriers in shared memory, and each role's state.
#pragma once

#include "cuda/sm90/operand.cuh"
#include "cuda/sm90/scheduler/work_tile.cuh"

namespace convt::core::cuda::sm90 {

struct Shared {
  int halo, weights;  // of operands: descriptor starts
  std::uint32_t weights_address, barriers;
  bool nonfinite = false;  // some weight is not finite: mainloop/nonfinite.cuh

  __device__ std::uint32_t halo_full(int halo_stage) const { return barriers + halo_stage * 8; }
  __device__ std::uint32_t halo_empty(int halo_stage) const { return barriers + (most_halo_stages + halo_stage) * 8; }
  __device__ std::uint32_t weights_full(int stage) const { return barriers + (2 * most_halo_stages + stage) * 8; }
  __device__ std::uint32_t weights_empty(int stage) const {
    return barriers + (2 * most_halo_stages + most_weight_stages + stage) * 8;
  }
  __device__ std::uint32_t staged_full(int part = 0) const {
    return barriers + (2 * (most_halo_stages + most_weight_stages) + part) * 8;
  }
  __device__ std::uint32_t staged_empty(int part = 0) const { return staged_full(most_staged + part); }
};

// A role's position in a ring: the index of a stage, and the phase of its barrier.
struct PipelineState {
  int size, index = 0, phase = 0;
  __device__ void advance() {
    if (++index == size) {
      index = 0;
      phase ^= 1;
    }
  }
  __device__ int previous() const { return (index == 0 ? size : index) - 1; }
};

__device__ inline PipelineState uniform(const PipelineState& ring) {
  return {ring.size, uniform(ring.index), uniform(ring.phase)};
}

// Called by a producer after its stores to a stage. Every lane arrives: if one lane arrived after a warp barrier, the
// compiler could remove that barrier, and racecheck would report a hazard.
__device__ inline void producer_commit(const Shared& shared, int halo_stage) {
  fence_async();
  arrive(shared.halo_full(halo_stage));
}

// Called by one thread. staged: buffers of staged results; staging_threads fill one, and a warpgroup empties it.
__device__ inline void init_barriers(const ConvParams& p, const Shared& shared, int halo_warps, int consumer_warps,
                                     int staged = 0, int staging_threads = 0) {
  for (int i = 0; i < p.halo_stages; ++i) {
    init_barrier(shared.halo_full(i), halo_warps * warp_threads);
    init_barrier(shared.halo_empty(i), consumer_warps);
  }
  for (int i = 0; i < p.weight_stages; ++i) {
    init_barrier(shared.weights_full(i), 1);
    init_barrier(shared.weights_empty(i), consumer_warps);
  }
  for (int i = 0; i < staged; ++i) {
    init_barrier(shared.staged_full(i), staging_threads);
    init_barrier(shared.staged_empty(i), group_threads);
  }
  fence_barrier_init();
}

// The consumers' states of both rings.
struct ConsumerStates {
  PipelineState halo, weights;
};

// The stages that a warpgroup holds while products in flight read them.
struct HeldStages {
  int weight_tile = 0;        // descriptor start of the next weight tile
  int tiles_left = 0;         // weight tiles left in the current stage
  int weights = -1;           // the current stage of weights; -1: none
  int finished_weights = -1;  // stages to release when all products but the last group's are done; -1: none
  int finished_halo = -1;
  int add = 0;  // not 0: the sums have products already
};
__device__ inline void consumer_release_weights(const Shared& shared, int stage) {
  if (threadIdx.x % warp_threads == 0) arrive(shared.weights_empty(stage));
}
__device__ inline void consumer_release_halo(const Shared& shared, int halo_stage) {
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(halo_stage));
}

// Waits for a stage of weights and advances.
__device__ inline void consumer_wait_weights(const ConvParams& p, const Shared& shared, ConsumerStates& states,
                                             HeldStages& held) {
  wait_converged(shared.weights_full(states.weights.index), states.weights.phase);
  held.weight_tile = shared.weights + states.weights.index * p.weight_stage_units;
  states.weights.advance();
}

// Waits for the first chunk of a halo tile or, if all are resident, for all chunks. Resident chunks are released when
// the tile is done.
__device__ inline void consumer_wait_tile(const ConvParams& p, const Shared& shared, const ConsumerStates& states) {
  PipelineState halo_stage = states.halo;
  for (int left = p.resident ? p.chunks : 1; left > 0; --left, halo_stage.advance())
    wait_converged(shared.halo_full(halo_stage.index), halo_stage.phase);
}
__device__ inline void consumer_release_tile(const ConvParams& p, const Shared& shared, ConsumerStates& states) {
  for (int chunk = 0; chunk < p.chunks; ++chunk, states.halo.advance())
    consumer_release_halo(shared, states.halo.index);
}

}  // namespace convt::core::cuda::sm90
