// SPDX-License-Identifier: Apache-2.0
// The map of a block's shared memory, and what warps keep there.
#pragma once

#include "cuda/sm90/pipeline/pipeline.cuh"
#include "cuda/sm90/scheduler/flags.cuh"

namespace convt::core::cuda::sm90 {

// Waits for the previous kernels, then says whether some weight is not finite. All threads of a warp call it.
template <class Traits>
__device__ bool has_nonfinite_weights(const ConvParams& p) {
  wait_for_kernel_before();
  // In kernels with a range guard the answer is always no: the fallback kernel handles such weights. But ptxas must not
  // know, or it would move zeros among products (C7515).
  return Traits::guarded ? p.nonfinite.loads < 0 : any_flag(p.nonfinite);
}

// The parts of a block's dynamic shared memory (docs/hopper.md draws the map). `epilogue`: scale and bias, then staged
// results or a strip.
struct Memory {
  unsigned char *halo_stages, *work_tiles, *partials, *output_offsets, *epilogue;
  Shared shared;
  int acts_for = 0;  // a writer that acts for a consumer: the difference of their thread indices

  __device__ Memory(const ConvParams& p, int tile_bytes, int warps, int offset_bytes = 0, bool splits = false) {
    unsigned char* const dynamic = dynamic_shared();
    halo_stages = dynamic + (shared_alignment - shared_address(dynamic) % shared_alignment) % shared_alignment;
    unsigned char* const weights = halo_stages + p.halo_stages * p.halo_stage_bytes;
    work_tiles = weights + p.weight_stages * p.weight_stage_tiles * tile_bytes;
    partials = work_tiles + (most_halo_stages + warps) * work_tile_bytes;
    output_offsets = partials + (splits ? (most_halo_stages + warps) * partial_tile_bytes : 0);
    epilogue = output_offsets + offset_bytes;
    shared = {descriptor_start(shared_address(halo_stages)), descriptor_start(shared_address(weights)),
              shared_address(weights), shared_address(shared_words<static_bytes / 8>())};
    if (offset_bytes == 0) return;
    // If they were not broadcast, the compiler would recompute them at every use.
    shared.halo = uniform(shared.halo);
    shared.weights = uniform(shared.weights);
    shared.barriers = static_cast<std::uint32_t>(uniform(static_cast<int>(shared.barriers)));
  }
  // The work tile of the halo in a stage. Producers write it for consumers.
  __device__ WorkTile* work_of(int halo_stage) const { return reinterpret_cast<WorkTile*>(work_tiles) + halo_stage; }
  // The work tile of this warp. It is in memory, and its address is recomputed, to save registers.
  __device__ WorkTile* work() const {
    int thread = threadIdx.x;
    opaque(thread);
    return reinterpret_cast<WorkTile*>(work_tiles) + most_halo_stages + thread / warp_threads;
  }
  // The partial tiles of a stage and of this warp, if work tiles may be split.
  __device__ PartialTile* partial_of(int halo_stage) const {
    return reinterpret_cast<PartialTile*>(partials) + halo_stage;
  }
  __device__ PartialTile* partial() const {
    int thread = threadIdx.x;
    opaque(thread);
    return reinterpret_cast<PartialTile*>(partials) + most_halo_stages + thread / warp_threads;
  }
  // The thread index of this consumer, or of the consumer that this writer acts for.
  __device__ int consumer() const {
    int thread = static_cast<int>(threadIdx.x) - acts_for;
    opaque(thread);
    return thread;
  }
  // A consumer's output offsets, one for each row tile. With a fold, the second holds the summed offsets of norms.
  __device__ std::int64_t* output_offset() const {
    return reinterpret_cast<std::int64_t*>(output_offsets + warp_offset_bytes) + consumer() * 2;
  }
  // For stores of vectors: the only offset of a consumer warp, and the buffer in which its threads exchange results.
  __device__ std::int64_t* warp_output_offset() const {
    return reinterpret_cast<std::int64_t*>(output_offsets) + consumer() / warp_threads;
  }
  __device__ unsigned char* vectors() const {
    return output_offsets + warp_offset_bytes + consumer() / warp_threads * vector_round;
  }
  // A writer warp's buffer, as large as the buffers of four consumer warps.
  __device__ unsigned char* many_vectors() const {
    int thread = threadIdx.x;
    opaque(thread);
    return output_offsets + warp_offset_bytes + thread / warp_threads % group_warps * (group_warps * vector_round);
  }
};

// Sets a warp's work tile. All threads of the warp call it.
__device__ inline void keep_work(const WorkTile& work, WorkTile* to) {
  __syncwarp();
  if (threadIdx.x % warp_threads == 0) *to = work;
  __syncwarp();
}
__device__ inline void keep_partial(const PartialTile& partial, PartialTile* to) {
  __syncwarp();
  if (threadIdx.x % warp_threads == 0) *to = partial;
  __syncwarp();
}
// Advances the work tile of this warp. All its threads call it.
template <class Traits>
__device__ void keep_next(const ConvParams& p, const Memory& memory) {
  WorkTile work = *memory.work();
  if constexpr (!Traits::splits) {
    advance_work<Traits>(p, work);
    return keep_work(work, memory.work());
  }
  PartialTile partial = *memory.partial();
  if (partial.number + p.grid < p.whole_work_tiles) {
    advance_partial<Traits>(p, work, partial);
    keep_work(work, memory.work());
    keep_partial(partial, memory.partial());
  } else {  // rare, so it works in memory, to save registers
    __syncwarp();
    if (threadIdx.x % warp_threads == 0) advance_partial<Traits>(p, *memory.work(), *memory.partial());
    __syncwarp();
  }
}
// keep_work(), with the offset of the tile's results.
__device__ inline void keep_with_result(const ConvParams& p, WorkTile work, WorkTile* to) {
  work.result = result_of(p, work);
  keep_work(work, to);
}

}  // namespace convt::core::cuda::sm90
