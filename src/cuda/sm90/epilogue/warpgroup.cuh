// SPDX-License-Identifier: Apache-2.0
// The epilogue warpgroup. Consumers hand folded results over through shared memory, and go on to the next tile. The
// writers act for one consumer warpgroup after the other: they run the epilogue after the fold, and store. Consumers
// end a tile at about the same time; while they ran that epilogue themselves, the tensor cores would idle.
#pragma once

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/epilogue/fold.cuh"
#include "cuda/sm90/loader/weights.cuh"

namespace convt::core::cuda::sm90 {

static_assert(epilogue_warpgroup_roles.consumers == 2 * folded_buffers &&
              epilogue_warpgroup_roles.consumers <= most_staged);

// The buffer of a consumer warpgroup: [8 columns][thread].
template <int n>
__device__ float4* folded_buffer(const Memory& memory, int group) {
  int thread = threadIdx.x;
  opaque(thread);
  unsigned char* const buffer =
      memory.epilogue + 2 * scale_bias_bytes(n) + group % folded_buffers * folded_staged_bytes(n);
  return reinterpret_cast<float4*>(buffer) + thread % group_threads;
}

// Called by consumers with the results of one tile. parity: the tile's number modulo 2. Warpgroups 0 and 2 alternate in
// one buffer, 1 and 3 in the other. A warpgroup's empty barrier completes when the writers have read the other's
// results.
template <int n>
__device__ void commit_folded(const Memory& memory, const float (&results)[n / 2], int& parity) {
  const int group = uniform(threadIdx.x / group_threads);
  const bool later = group >= folded_buffers;  // in each tile another warpgroup uses the buffer first
  wait_converged(memory.shared.staged_empty(group), later ? parity : parity ^ 1);
  float4* const to = folded_buffer<n>(memory, group);
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
    to[i * group_threads] = {results[4 * i], results[4 * i + 1], results[4 * i + 2], results[4 * i + 3]};
  arrive(memory.shared.staged_full(group));
  parity ^= 1;
}

// Calls into(sums) for each phase, in the specialised variant with resident weights: no branch between phases.
// ConvParams::tap_offsets lists each phase's taps and weights before its offsets; those of the next phase are loaded
// while products are in flight.
template <class Traits, int steps, class Into>
__device__ __forceinline__ void fold_phases(const ConvParams& p, const Shared& shared, const int (&offset)[1],
                                            ConsumerStates& states, const Into& into) {
  states.halo = uniform(states.halo);
  int at = 0, taps = uniform(p.tap_offsets[0]), weights = uniform(p.tap_offsets[1]);
#pragma unroll 1
  do {
    float sums[1][1][Traits::columns / 2];
    HeldStages held;
    accumulate_specialised<Traits, steps, WeightResidency::resident>(
        p, shared, {.taps = taps, .listed = at + 2, .weights = weights}, offset, states, held, sums[0]);
    at += 2 + taps;
    taps = uniform(p.tap_offsets[at]);
    weights = uniform(p.tap_offsets[at + 1]);
    multiply_wait<0>();
    into(sums);
  } while (taps > 0);
}

// Folds a tile's phases, releases its halo, and hands the result over.
template <class Traits>
__device__ __forceinline__ void run_folded_resident(const ConvParams& p, int variant, const int (&offset)[1],
                                                    ConsumerStates& states, const Memory& memory, int& parity) {
  constexpr int n = Traits::columns;
  using Fragment = float[1][1][n / 2];
  float2 offsets;
  Folded<n> folded(p.fold, offsets);
  const auto pool = [&](const auto& into) {
    if (variant == variant_of<2, WeightResidency::resident>)
      fold_phases<Traits, 2>(p, memory.shared, offset, states, into);
    else
      fold_phases<Traits, 4>(p, memory.shared, offset, states, into);
  };
  if (is_max_of_sums(p.fold))
    pool([&](Fragment& x) { folded.add_greater(x); });
  else
    pool([&](Fragment& x) { folded.template add_norm<false>(p.epilogue, x); });
  consumer_release_tile(p, memory.shared, states);
  folded.end(p.fold);
  commit_folded<n>(memory, folded.results[0][0], parity);
}

// run_folded_resident() for weights that are not finite. Results are in memory across calls, to save registers.
template <class Traits>
__device__ __forceinline__ void fold_nonfinite(const ConvParams& p, ConsumerStates& states, const Memory& memory,
                                               int& parity) {
  constexpr int n = Traits::columns;
  float2 offsets;
  float results[n / 2];
  {
    const Folded<n> none(p.fold, offsets);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[i] = none.results[0][0][i];
  }
#pragma unroll 1
  for (int number = 0; number < p.phase_count; ++number) {
    const int phase = p.phases[number].bits;
    const WorkTile work = *memory.work_of(states.halo.index);
    float sums[1][1][n / 2];
    keep_in_memory(results);
    accumulate_nonfinite<typename Traits::Element, n, 1, PositionsAsRows<n>, 1>(
        p, work, number, phase_along(phase, 0), phase_along(phase, 1), phase_along(phase, 2), sums[0]);
    keep_in_memory(results);
    const float2 before = offsets;
    Folded<n> folded(p.fold, offsets);
    offsets = before;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) folded.results[0][0][i] = results[i];
    is_max_of_sums(p.fold) ? folded.add_greater(sums) : folded.template add_norm<false>(p.epilogue, sums);
    if (number + 1 == p.phase_count) folded.end(p.fold);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[i] = folded.results[0][0][i];
  }
  consumer_release_tile(p, memory.shared, states);
  commit_folded<n>(memory, results, parity);
}

// The consumers of all tiles of a block.
template <class Traits>
__device__ __forceinline__ void consume_folded(const ConvParams& p, const Memory& memory) {
  const Shared& shared = memory.shared;
  const int offset[1] = {p.m_tile_offset[uniform(threadIdx.x / group_threads)]};
  int parity = 0, variant = p.variant;
  opaque(variant);
  ConsumerStates states{{p.halo_stages}, {p.weight_stages}};
  if (!Traits::guarded && shared.nonfinite) {  // a separate loop, to save registers
    for (int left = work_tile_count<Traits>(p); left > 0; --left) {
      consumer_wait_tile(p, shared, states);
      fold_nonfinite<Traits>(p, states, memory, parity);
    }
    return;
  }
  if (threadIdx.x == 0) load_weights(p, shared, Traits::columns * p.row_bytes);
  wait_converged(shared.weights_full(0), 0);
  for (int left = work_tile_count<Traits>(p); left > 0; --left) {
    consumer_wait_tile(p, shared, states);
    run_folded_resident<Traits>(p, variant, offset, states, memory, parity);
  }
}

// The writers of all tiles of a block, one consumer warpgroup after the other.
template <class Traits>
__device__ void write_folded(const ConvParams& p, Memory& memory) {
  constexpr int n = Traits::columns, groups = Traits::roles.consumers;
  using E = typename Traits::Element;
  const auto take_place_of = [&](int group) { memory.acts_for = Traits::roles.first_writer() - group * group_threads; };
  for (int group = 0; group < groups; ++group) {
    take_place_of(group);
    find_output_offsets<n, 1, sizeof(E) == 2>(p, memory);
  }
  wait_for_kernel_before();  // scale and bias may be its results
  int band = -1, parity = 0;
  fill_scale_bias<n, group_threads, 2>(p, 0, band, memory.epilogue, second_chain);
  keep_work(first_work_tile<Traits>(p), memory.work());
  for (int left = work_tile_count<Traits>(p); left > 0; --left, keep_next<Traits>(p, memory), parity ^= 1) {
    keep_with_result(p, *memory.work(), memory.work());
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
      take_place_of(group);
      wait_converged(memory.shared.staged_full(group), parity);
      float results[1][1][n / 2];
      const float4* const from = folded_buffer<n>(memory, group);
#pragma unroll
      for (int k = 0; k < n / 8; ++k) {
        const float4 x = from[k * group_threads];
        results[0][0][4 * k] = x.x;
        results[0][0][4 * k + 1] = x.y;
        results[0][0][4 * k + 2] = x.z;
        results[0][0][4 * k + 3] = x.w;
      }
      arrive(memory.shared.staged_empty((group + folded_buffers) %
                                        groups));  // every lane arrives, as in producer_commit()
      finish<E, Centred>(p.after_fold, scale_bias_in<n>(memory.epilogue, 1), p,
                         Results<n, 1, 1, true>{p, memory, p.phases[0].bits, p.phases[0].result}, results);
    }
  }
}

// The writers act for the consumers.
struct HandedOverStore {};
template <>
struct StoreOf<Store::handed_over> {
  using Policy = HandedOverStore;
};

}  // namespace convt::core::cuda::sm90
