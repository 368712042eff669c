// SPDX-License-Identifier: Apache-2.0
// Folded results on their way to the output. Consumers hand them on as they are, each thread its own, and go on to the
// next tile. A warpgroup of writers takes the place of one of theirs after the other, runs the chain behind the pool
// and stores: all consumers end a tile at about the same time, and nothing would be multiplied meanwhile.
#pragma once

#include "cuda/sm90/careful.cuh"
#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/launchers.hpp"
#include "cuda/sm90/products.cuh"
#include "cuda/sm90/staged.cuh"

namespace convt::core::cuda::sm90 {

static_assert(pooled_team.consumers == 2 * pooled_buffers && pooled_team.consumers <= most_staged);

// Of warpgroup `group`: [8 columns][thread], what a thread has of them.
template <int n>
__device__ float4* handed_on(const Memory& memory, int group) {
  int thread = threadIdx.x;
  forget(thread);
  unsigned char* const buffer = memory.behind + 2 * lines_bytes(n) + group % pooled_buffers * pooled_staged_bytes(n);
  return reinterpret_cast<float4*>(buffer) + thread % group_threads;
}

// By consumers, a warpgroup's results of one tile. parity: of the tile's number. A buffer is that of warpgroups 0, 2,
// 0, 2 and so on, or 1, 3: each one's barrier tells that writers have read the one before.
template <int n>
__device__ void hand_on_pooled(const Memory& memory, const float (&results)[n / 2], int& parity) {
  const int group = uniform(threadIdx.x / group_threads);
  const bool later = group >= pooled_buffers;  // in the same tile, another one has the buffer before
  wait_together(memory.shared.staged_empty(group), later ? parity : parity ^ 1);
  float4* const to = handed_on<n>(memory, group);
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
    to[i * group_threads] = {results[4 * i], results[4 * i + 1], results[4 * i + 2], results[4 * i + 3]};
  arrive(memory.shared.staged_full(group));
  parity ^= 1;
}

// into(sums), of phase after phase: what it does with them is known, and nothing is asked between. ConvParams::places
// has each one's numbers, in the order of their use; the next one's are loaded while products are under way.
template <class Kind, int steps, class Into>
__device__ __forceinline__ void pool_phases(const ConvParams& p, const Shared& shared, const int (&offset)[1],
                                            Feed& feed, const Into& into) {
  feed.halo = uniform(feed.halo);
  int at = 0, taps = uniform(p.places[0]), weights = uniform(p.places[1]);
#pragma unroll 1
  do {
    float sums[1][1][Kind::columns / 2];
    Open open;
    accumulate_shortly<Kind, steps, Come::never>(p, shared, {.taps = taps, .listed = at + 2, .weights = weights},
                                                 offset, feed, open, sums[0]);
    at += 2 + taps;
    taps = uniform(p.places[at]);
    weights = uniform(p.places[at + 1]);
    multiply_wait<0>();
    into(sums);
  } while (taps > 0);
}

// A tile's phases into one result for each position, for the writers; its halo is done with before these are.
template <class Kind>
__device__ __forceinline__ void run_pooled(const ConvParams& p, int route, const int (&offset)[1], Feed& feed,
                                           const Memory& memory, int& parity) {
  constexpr int n = Kind::columns;
  using Sums = float[1][1][n / 2];
  float2 offsets;
  Folded<n> folded(p.fold, offsets);
  const auto pool = [&](const auto& into) {
    if (route == Route::two_steps_stay)
      pool_phases<Kind, 2>(p, memory.shared, offset, feed, into);
    else
      pool_phases<Kind, 4>(p, memory.shared, offset, feed, into);
  };
  if (p.fold.kind == Fold::max_of_sums)
    pool([&](Sums& x) { folded.add_greater(x); });
  else
    pool([&](Sums& x) { folded.add_norm(p.quick, x); });
  release_tile(p, memory.shared, feed);
  folded.end(p.fold);
  hand_on_pooled<n>(memory, folded.results[0][0], parity);
}

// The same where some weight is not finite. What is folded is in memory while others are called: registers are short.
template <class Kind>
__device__ __forceinline__ void run_pooled_carefully(const ConvParams& p, Feed& feed, const Memory& memory,
                                                     int& parity) {
  constexpr int n = Kind::columns;
  float2 offsets;
  float results[n / 2];
  {
    const Folded<n> none(p.fold, offsets);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[i] = none.results[0][0][i];
  }
#pragma unroll 1
  for (int number = 0; number < p.class_count; ++number) {
    const int phase = p.classes[number].phase;
    const Item item = *memory.item_of(feed.halo.place);
    float sums[1][1][n / 2];
    keep_in_memory(results);
    accumulate_carefully<typename Kind::Element, n, 1, PositionsAsRows<n>, 1>(
        p, item, number, phase_along(phase, 0), phase_along(phase, 1), phase_along(phase, 2), sums[0]);
    keep_in_memory(results);
    const float2 before = offsets;
    Folded<n> folded(p.fold, offsets);
    offsets = before;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) folded.results[0][0][i] = results[i];
    p.fold.kind == Fold::max_of_sums ? folded.add_greater(sums) : folded.add_norm(p.quick, sums);
    if (number + 1 == p.class_count) folded.end(p.fold);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[i] = folded.results[0][0][i];
  }
  release_tile(p, memory.shared, feed);
  hand_on_pooled<n>(memory, results, parity);
}

// By the consumers: every tile of the block.
template <class Kind>
__device__ __forceinline__ void consume_pooled(const ConvParams& p, const Memory& memory) {
  const Shared& shared = memory.shared;
  const int offset[1] = {p.block_place[uniform(threadIdx.x / group_threads)]};
  int parity = 0, route = p.route;
  forget(route);
  Feed feed{{p.slots}, {p.stages}};
  if (!Kind::halved && shared.careful) {  // apart, as registers are short
    for (int left = items_of<false>(p); left > 0; --left) {
      wait_for_tile(p, shared, feed);
      run_pooled_carefully<Kind>(p, feed, memory, parity);
    }
    return;
  }
  if (threadIdx.x == 0) load_weights(p, shared, Kind::columns * p.row_bytes);
  wait_together(shared.weights_full(0), 0);
  for (int left = items_of<false>(p); left > 0; --left) {
    wait_for_tile(p, shared, feed);
    run_pooled<Kind>(p, route, offset, feed, memory, parity);
  }
}

// By the writers: every tile of the block, a warpgroup's part after the other.
template <class Kind>
__device__ void write_pooled(const ConvParams& p, Memory& memory) {
  constexpr int n = Kind::columns, groups = Kind::team.consumers;
  using E = typename Kind::Element;
  const auto take_place_of = [&](int group) { memory.stands_in = Kind::team.first_writer() - group * group_threads; };
  for (int group = 0; group < groups; ++group) {
    take_place_of(group);
    find_places<n, 1, sizeof(E) == 2>(p, memory);
  }
  wait_for_kernel_before();  // lines may be its results
  int band = -1, parity = 0;
  fill_lines<n, group_threads, 2>(p, 0, band, memory.behind, second_chain);
  Item item = item_at(p, blockIdx.x);
  for (int left = items_of<false>(p); left > 0; --left, step_on<false>(p, item), parity ^= 1) {
    keep_with_result(p, item, memory.item());
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
      take_place_of(group);
      wait_together(memory.shared.staged_full(group), parity);
      float results[1][1][n / 2];
      const float4* const from = handed_on<n>(memory, group);
#pragma unroll
      for (int k = 0; k < n / 8; ++k) {
        const float4 x = from[k * group_threads];
        results[0][0][4 * k] = x.x;
        results[0][0][4 * k + 1] = x.y;
        results[0][0][4 * k + 2] = x.z;
        results[0][0][4 * k + 3] = x.w;
      }
      arrive(memory.shared.staged_empty((group + pooled_buffers) % groups));  // by every lane, as with slots
      finish<E, Centred>(p.behind, lines_in<n>(memory.behind, 1), p,
                         Results<n, 1, 1, true>{p, memory, p.classes[0].phase, p.classes[0].result}, results);
    }
  }
}

}  // namespace convt::core::cuda::sm90
