// SPDX-License-Identifier: Apache-2.0
// The convolution on Hopper's tensor cores. docs/hopper.md tells how one tile travels.
//
// Warpgroups of producers and of consumers. Producers read the input, round it and write halo tiles to shared memory,
// [pixel][channel]; one of their warps streams weights. Consumers multiply: rows are positions, columns output
// channels, or the other way round (wide.cuh, where writers store). Every tap of every phase reads the same halo tile,
// from another row on. The chain runs on the sums.
#pragma once

#include "cuda/sm90/careful.cuh"
#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/halo.cuh"
#include "cuda/sm90/launchers.hpp"
#include "cuda/sm90/products.cuh"
#include "cuda/sm90/wide.cuh"

namespace convt::core::cuda::sm90 {

// By one thread. Blocks of a cluster load a part of each stage for all of them.
__device__ inline void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const auto* const all = static_cast<const unsigned char*>(p.weights);
  if (p.all_weights) {
    const int bytes = p.taps * p.chunks * tile_bytes;
    arrive_expecting(shared.weights_full(0), bytes);
    copy_bulk(shared.weights_address, all, bytes, shared.weights_full(0));
    return;
  }
  const int rank = static_cast<int>(blockIdx.x) % p.cluster;
  const auto everywhere = static_cast<std::uint16_t>((1 << p.cluster) - 1);
  Ring stage{p.stages};
  Item item = item_at(p, blockIdx.x);
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, go_on(p, item)) {
    for_each_class(p, [&](const Class& c) {
      const int tiles = c.taps * p.chunks;
      const auto* const from = all + (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * tile_bytes;
      for (int t = 0; t < tiles; t += p.stage_tiles) {
        const int bytes = min(p.stage_tiles, tiles - t) * tile_bytes, part = bytes / p.cluster;
        const std::int64_t offset = static_cast<std::int64_t>(t) * tile_bytes + rank * part;
        const std::uint32_t to = shared.weights_address + stage.place * p.stage_tiles * tile_bytes + rank * part;
        wait(shared.weights_empty(stage.place), stage.parity ^ 1);
        arrive_expecting(shared.weights_full(stage.place), bytes);
        if (p.cluster == 1)
          copy_bulk(to, from + offset, part, shared.weights_full(stage.place));
        else
          copy_bulk_to(everywhere, to, from + offset, part, shared.weights_full(stage.place));
        stage.next();
      }
    });
  }
}

// once: not again for each phase. Items are kept in shared memory then: such kernels have no registers for them.
template <class E, int loads, bool once>
__device__ void fill_halos(const ConvParams& p, const Memory& memory, const Team& team) {
  Ring slot{p.slots};
  Filler filler{static_cast<int>(threadIdx.x) - team.consumers * group_threads, team.halo_warps() * warp_threads};
  Item item = item_at(p, blockIdx.x);
  if constexpr (once) keep_item(item, memory.item());
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const Corner corner = corner_of(p, once ? *memory.item() : item);
    for (int fill = 0; fill < (once ? 1 : p.fills); ++fill)
      fill_box<E, loads>(p, memory.shared, corner, memory.slots, slot, filler);
    if constexpr (once)
      keep_next_item(p, memory.item());
    else
      go_on(p, item);
  }
}

// Waits for all chunks of a tile, where they stay; frees them when it is done.
__device__ inline void wait_for_tile(const ConvParams& p, const Shared& shared, const Feed& feed) {
  Ring slot = feed.halo;
  for (int chunk = 0; chunk < p.chunks; ++chunk, slot.next()) wait_together(shared.halo_full(slot.place), slot.parity);
}
__device__ inline void release_tile(const ConvParams& p, const Shared& shared, Feed& feed) {
  for (int chunk = 0; chunk < p.chunks; ++chunk, feed.halo.next()) release_halo(shared, feed.halo.place);
}

template <int n, int blocks>
__device__ void clear(float (&sums)[blocks][n / 2]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) x = 0;
}

// The sums of neighbouring phases along w, the first `there` of them; `number` is the first one's class.
template <class Kind, int joint>
__device__ void sum_phases_any(const ConvParams& p, const Memory& memory, int number, int there,
                               const int (&offset)[Kind::blocks], Feed& feed, Open& open,
                               float (&sums)[joint][Kind::blocks][Kind::across / 2]) {
  constexpr int n = Kind::columns, blocks = Kind::blocks;
  using Places = std::conditional_t<Kind::wide, PositionsAsColumns, PositionsAsRows<n>>;
  const Shared& shared = memory.shared;
#pragma unroll
  for (int j = 0; j < joint; ++j) {
    const Class c = uniform(p.classes[number + j]);
    const bool occurs = j == 0 || j < there;
    if (shared.careful && occurs) {
      const Item item = *memory.item();  // or its address is kept for a call that hardly ever comes
      accumulate_carefully<typename Kind::Element, n, 1, Places, blocks>(
          p, item, number + j, phase_along(c.phase, 0), phase_along(c.phase, 1), phase_along(c.phase, 2), sums[j]);
    } else if (!occurs || c.taps == 0) {
      clear<Kind::across, blocks>(sums[j]);
    } else {
      accumulate<Kind>(p, shared, c, offset, feed, open, sums[j]);
      multiply_wait<0>();
    }
  }
}
// The same; `route` is ConvParams::route, or `any`.
template <class Kind, int joint>
__device__ void sum_phases(const ConvParams& p, const Memory& memory, int route, int number, int there,
                           const int (&offset)[Kind::blocks], Feed& feed,
                           float (&sums)[joint][Kind::blocks][Kind::across / 2]) {
  const Shared& shared = memory.shared;
  feed.halo = uniform(feed.halo);
  feed.stage = uniform(feed.stage);
  Open open;
  if constexpr (!Kind::wide) {  // that has one phase, whose box does not stay
    const bool shortly = with_route(route, [&]<int steps, bool all_weights>() {
#pragma unroll
      for (int j = 0; j < joint; ++j) {
        accumulate_shortly<Kind, steps, all_weights>(p, shared, p.classes[number + j], offset, feed, open, sums[j]);
        multiply_wait<0>();
      }
      if constexpr (!all_weights) release_weights(p, shared, open.stage);
    });
    if (shortly) return;
  }
  sum_phases_any<Kind, joint>(p, memory, number, there, offset, feed, open, sums);
  if (open.slot >= 0) release_halo(shared, open.slot);
  if (open.stage >= 0) release_weights(p, shared, open.stage);
}

// Phase by phase to the output; neighbouring ones along w together.
template <class Kind>
__device__ void run_phases(const ConvParams& p, int route, const int (&offset)[Kind::blocks], Feed& feed,
                           const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks, joint = Kind::joint;
  if constexpr (Kind::way != Way::strip) find_places<n, blocks, false>(p, memory);
  int number = 0;
#pragma unroll 1
  do {
    const Class& c = p.classes[number];
    const int there = joint == 1 ? 1 : min(joint, p.phases[2] - phase_along(c.phase, 2));
    float sums[joint][blocks][Kind::across / 2];
    sum_phases<Kind, joint>(p, memory, route, number, there, offset, feed, sums);
    if constexpr (Kind::way == Way::strip)
      finish_in_strip<n>(p, *memory.item(), c.phase, sums[0][0], memory.behind);
    else
      finish<typename Kind::Element, Shifted>(p.quick, lines_in<n>(memory.behind), p,
                                              Results<n, joint, blocks>{p, memory, c.phase, c.result}, sums);
    number += there;
  } while (number < p.class_count);
}

// All phases of a position into one result.
template <class Kind>
__device__ void run_folded(const ConvParams& p, int route, const int (&offset)[Kind::blocks], Feed& feed,
                           const Memory& memory) {
  static_assert(Kind::blocks == 1);
  constexpr int n = Kind::columns;
  using E = typename Kind::Element;
  Folded<n> folded(p.fold, reinterpret_cast<float2*>(memory.place()));    // where results' places will be
  const int count = uniform(p.class_count), kind = uniform(p.fold.kind);  // or they are loaded again for each
  int number = 0;
#pragma unroll 1
  do {
    float sums[1][1][n / 2];
    sum_phases<Kind, 1>(p, memory, route, number, 1, offset, feed, sums);
    fold_phase(p, kind, lines_in<n>(memory.behind), sums, folded);
  } while (++number < count);
  folded.end(p.fold);
  find_places<n, 1, sizeof(E) == 2>(p, memory);
  finish<E, Centred>(p.behind, lines_in<n>(memory.behind, 1), p,
                     Results<n, 1, 1>{p, memory, p.classes[0].phase, p.classes[0].result}, folded.results);
}

// The only phase, staged for the writers.
template <class Kind>
__device__ void run_wide(const ConvParams& p, int route, const int (&offset)[Kind::blocks], Feed& feed,
                         const Memory& memory, int& parity) {
  using E = typename Kind::Element;
  float sums[1][1][Kind::across / 2];
  const int number = p.phases[0] - 1;  // 0; but a class that the compiler knows would be walked in ordinary registers
  sum_phases<Kind, 1>(p, memory, route, number, 1, offset, feed, sums);
  wait_for_staging(memory.shared, parity);
  stage_block(p.quick, lines_in<Kind::columns>(memory.behind), sums[0][0], staged_in<E, Kind::columns>(memory.behind));
  hand_on_staged(memory.shared, parity);
}

// Inline, however long: a call between products would make them wait for each other.
template <class Kind>
__device__ __forceinline__ void consume(const ConvParams& p, const Memory& memory) {
  constexpr int blocks = Kind::blocks;
  const Shared& shared = memory.shared;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[blocks];  // of each block, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < blocks; ++b) offset[b] = p.block_place[group * blocks + b];
  Feed feed{{p.slots}, {p.stages}};
  if (p.all_weights && !shared.careful) wait_together(shared.weights_full(0), 0);
  int route = shared.careful ? Route::any : p.route;
  forget(route);
  int band = -1;  // whose lines are there
  [[maybe_unused]] int staged = 0;
  keep_item(item_at(p, blockIdx.x), memory.item());
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, keep_next_item(p, memory.item())) {
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::folds, Kind::team.consumers * group_threads>(p, uniform(memory.item()->band),
                                                                                   band, memory.behind);
    if (p.resident && !shared.careful) wait_for_tile(p, shared, feed);
    if constexpr (Kind::folds)
      run_folded<Kind>(p, route, offset, feed, memory);
    else if constexpr (Kind::wide)
      run_wide<Kind>(p, route, offset, feed, memory, staged);
    else
      run_phases<Kind>(p, route, offset, feed, memory);
    if (p.resident && !shared.careful) release_tile(p, shared, feed);
  }
}

template <class Kind>
__global__ void __launch_bounds__(Kind::team.threads(), 1) conv_kernel(const __grid_constant__ ConvParams p) {
  constexpr Team team = Kind::team;
  constexpr int streamer = team.first_writer() - warp_threads;   // the first thread of the producers' last warp
  constexpr int loads = team.producer_registers < 80 ? 16 : 32;  // that a producer has under way
  const int tile_bytes = Kind::columns * p.row_bytes;
  Memory memory(p, tile_bytes, team.item_warps(), Kind::place_bytes);
  Shared& shared = memory.shared;
  if (threadIdx.x == 0) init_barriers(p, shared, team.halo_warps(), team.consumer_warps(), team.writers * group_warps);
  sync_blocks(p);
  shared.careful = must_be_careful(p);
  if (threadIdx.x >= team.first_writer()) {
    if constexpr (Kind::wide) {
      give_registers<team.writer_registers>();
      const auto* const staged = staged_in<typename Kind::Element, Kind::columns>(memory.behind);
      p.paired ? write_tiles<typename Kind::Element, 2>(p, shared, staged)
               : write_tiles<typename Kind::Element, 1>(p, shared, staged);
    }
  } else if (threadIdx.x >= team.first_producer()) {
    give_registers<team.producer_registers>();
    if (threadIdx.x < streamer && !shared.careful)
      fill_halos<typename Kind::Element, loads, Kind::wide>(p, memory, team);
    else if (threadIdx.x == streamer && !shared.careful)
      stream_weights(p, shared, tile_bytes);
  } else {
    take_registers<team.consumer_registers>();
    consume<Kind>(p, memory);
  }
  if (p.cluster > 1) sync_cluster();  // no block leaves while others may write to its shared memory
}

}  // namespace convt::core::cuda::sm90
