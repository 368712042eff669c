// SPDX-License-Identifier: Apache-2.0
// The convolution kernel. docs/hopper.md follows one tile through it.
//
// Producer warps load the input, round it and write halo tiles to shared memory, [pixel][channel]; the last one streams
// weights unless they are resident. Consumer warpgroups multiply: every tap of every phase reads the same halo tile
// from another row on. The epilogue runs on their accumulators. Writer warps, in some configs, store staged results, or
// run the epilogue after a fold (epilogue/warpgroup.cuh).
#pragma once

#include "cuda/sm90/epilogue/fold.cuh"
#include "cuda/sm90/epilogue/strip.cuh"
#include "cuda/sm90/epilogue/swapped.cuh"
#include "cuda/sm90/epilogue/warpgroup.cuh"
#include "cuda/sm90/loader/halo.cuh"
#include "cuda/sm90/loader/weights.cuh"
#include "cuda/sm90/mainloop/phases.cuh"
#include "cuda/sm90/store/quads.cuh"
#include "cuda/sm90/store/rows.cuh"
#include "cuda/sm90/store/swapped.cuh"

namespace convt::core::cuda::sm90 {

// Functions between products are inlined, however long: a call would serialise the products.

// Computes phase after phase, joint phases together, and stores their results.
template <class Traits>
__device__ __forceinline__ void run_phases(const ConvParams& p, int variant, const int (&offset)[Traits::m_tiles],
                                           ConsumerStates& states, const Memory& memory) {
  constexpr int n = Traits::columns, m_tiles = Traits::m_tiles, joint = Traits::joint;
  int number = p.tile_partials == 1 ? 0 : uniform(memory.partial()->first);
#pragma unroll 1
  do {
    const Phase& c = p.phases[number];
    const int count = joint_phases<joint>(p, number);
    if constexpr (Traits::programmed) Traits::Epilogue::template prefetch<Traits>(p, memory, c);
    float sums[joint][m_tiles][Traits::across / 2];
    sum_phases<Traits, joint>(p, memory, variant, number, count, offset, states, sums);
    if constexpr (Traits::in_strip)
      finish_in_strip<n>(p, *memory.work(), c.bits, sums[0][0], memory.epilogue);
    else if constexpr (Traits::programmed)
      Traits::Epilogue::template finish_phases<Traits>(p, memory, c, sums);
    else
      finish<PlainInput<Traits>, Traits::template Rows>(
          p.epilogue, scale_bias_in<n>(memory.epilogue), p,
          typename Traits::StorePolicy::template Results<Traits>{p, memory, c.bits, c.result}, sums);
    number += count;
    // The end is read from memory again, to save a register, but only if work tiles are split: the load waits for
    // products.
  } while (p.tile_partials == 1 ? number < p.phase_count : __any_sync(~0U, number < memory.partial()->end));
}

// Computes the only phase and stages it for the writers.
template <class Traits>
__device__ __forceinline__ void run_swapped(const ConvParams& p, int variant, const int (&offset)[Traits::m_tiles],
                                            ConsumerStates& states, const Memory& memory, int& parity) {
  using E = typename Traits::Element;
  float sums[1][1][Traits::across / 2];
  const int number = p.axis_phases[0] - 1;  // 0, but a constant would make the compiler walk taps in ordinary registers
  sum_phases<Traits, 1>(p, memory, variant, number, 1, offset, states, sums);
  if constexpr (Traits::programmed)
    Traits::Epilogue::template run_swapped<E>(p, memory, sums[0]);
  else
    SwappedEpilogue{p.epilogue, scale_bias_in<Traits::columns>(memory.epilogue)}.run(sums[0][0]);
  staging_acquire(memory.shared, parity);
  stage_m_tile(sums[0][0], staged_in<E, Traits::columns>(memory.epilogue));
  staging_commit(memory.shared, parity);
}

template <class Traits>
__device__ __forceinline__ void consume(const ConvParams& p, const Memory& memory) {
  constexpr int m_tiles = Traits::m_tiles;
  const Shared& shared = memory.shared;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[m_tiles];  // of each row tile, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < m_tiles; ++b) offset[b] = p.m_tile_offset[group * m_tiles + b];
  ConsumerStates states{{p.halo_stages}, {p.weight_stages}};
  if (p.all_weights && !shared.nonfinite) {
    if (threadIdx.x == 0) load_weights(p, shared, Traits::columns * p.row_bytes);
    wait_converged(shared.weights_full(0), 0);
  }
  int variant = shared.nonfinite ? MainloopVariant::general : p.variant;
  if constexpr (Traits::StorePolicy::has_spare_register) opaque(variant);  // recomputed, to save registers
  Traits::StorePolicy::template find_offsets<Traits>(p, memory);
  [[maybe_unused]] int staged = 0;
  constexpr WhichChains chains = Traits::folds ? both_chains : first_chain;
  const auto fill = [&](int band, int before) {  // before: the band that shared memory has
    if constexpr (Traits::programmed)
      Traits::Epilogue::template fill<Traits>(p, band, before, memory);
    else if constexpr (!Traits::in_strip)
      fill_scale_bias<Traits::columns, Traits::roles.first_producer()>(p, band, before, memory.epilogue, chains);
  };
  if (p.bands == 1) fill(0, -1);
  if (p.bands > 1) keep_work({0, -1, {0, 0, 0}, 0, 0}, memory.work());
  int left = work_tile_count<Traits>(p);
  do {
    consumer_wait_tile(p, shared, states);
    const int before = p.bands == 1 ? 0 : uniform(memory.work()->band);
    keep_work(*memory.work_of(states.halo.index), memory.work());
    if constexpr (Traits::splits) keep_partial(*memory.partial_of(states.halo.index), memory.partial());
    if (p.bands > 1) fill(uniform(memory.work()->band), before);
    if constexpr (Traits::folds)
      run_folded<Traits>(p, variant, offset, states, memory);
    else if constexpr (Traits::swapped)
      run_swapped<Traits>(p, variant, offset, states, memory, staged);
    else
      run_phases<Traits>(p, variant, offset, states, memory);
    if (p.resident) consumer_release_tile(p, shared, states);
  } while (Traits::splits ? __any_sync(~0U, memory.partial()->more > 0) : --left > 0);
}

template <class Traits>
__global__ void __launch_bounds__(Traits::roles.threads(), 1) conv_kernel(const __grid_constant__ ConvParams p) {
  if (!must_run<Traits>(p)) return;
  constexpr WarpRoles roles = Traits::roles;
  constexpr int streamer = roles.first_writer() - warp_threads;  // the first thread of the last producer warp
  const int tile_bytes = Traits::columns * p.row_bytes;
  const bool all = Traits::all_producers_fill && p.all_weights;
  Memory memory(p, tile_bytes, roles.warps(), Traits::offset_bytes, Traits::splits);
  Shared& shared = memory.shared;
  if (threadIdx.x == 0)
    init_barriers(p, shared, roles.halo_warps(all), roles.consumer_warps(),
                  Traits::hands_over ? roles.consumers : roles.writers,
                  Traits::hands_over ? group_threads : roles.first_producer());
  __syncthreads();
  if (threadIdx.x >= roles.first_writer()) {
    if constexpr (roles.writers > 0) give_registers<roles.writer_registers>();
    if constexpr (Traits::hands_over) write_folded<Traits>(p, memory);
    if constexpr (Traits::swapped) p.paired ? write_tiles<Traits, 2>(p, memory) : write_tiles<Traits, 1>(p, memory);
  } else if (threadIdx.x >= roles.first_producer()) {
    give_registers<roles.producer_registers>();
    if (all)
      fill_halos<Traits, roles.halo_warps(true)>(p, memory);
    else if (threadIdx.x < streamer)
      fill_halos<Traits, roles.halo_warps(false)>(p, memory);
    else if (!p.all_weights && !has_nonfinite_weights<Traits>(p) && threadIdx.x == streamer)
      stream_weights<Traits>(p, shared, tile_bytes);
  } else {
    shared.nonfinite = has_nonfinite_weights<Traits>(p);
    take_registers<roles.consumer_registers>();
    if constexpr (Traits::hands_over)
      consume_folded<Traits>(p, memory);
    else
      consume<Traits>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
