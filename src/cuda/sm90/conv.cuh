// SPDX-License-Identifier: Apache-2.0
// The convolution on Hopper's tensor cores. docs/hopper.md tells how one tile travels.
//
// Warpgroups of producers and of consumers. Producers read the input, round it and write halo tiles to shared memory,
// [pixel][channel]; the last of their warps streams weights, where they do not stay. Consumers multiply: rows are
// positions, columns output channels, or the other way round (wide.cuh, where writers store). Every tap of every phase
// reads the same halo tile, from another row on. The chain runs on the sums; behind some pools, writers run it
// (pooled.cuh).
#pragma once

#include "cuda/sm90/careful.cuh"
#include "cuda/sm90/halo.cuh"
#include "cuda/sm90/pooled.cuh"
#include "cuda/sm90/products.cuh"
#include "cuda/sm90/wide.cuh"

namespace convt::core::cuda::sm90 {

// Weights that do not stay, by one thread.
__device__ inline void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const auto* const all = static_cast<const unsigned char*>(p.weights);
  Ring stage{p.stages};
  Item item = item_at(p, blockIdx.x);
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, go_on(p, item)) {
    for_each_class(p, [&](const Class& c) {
      const int tiles = c.taps * p.chunks;
      const auto* const from = all + (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * tile_bytes;
      for (int t = 0; t < tiles; t += p.stage_tiles) {
        const int bytes = min(p.stage_tiles, tiles - t) * tile_bytes;
        wait(shared.weights_empty(stage.place), stage.parity ^ 1);
        arrive_expecting(shared.weights_full(stage.place), bytes);
        copy_bulk(shared.weights_address + stage.place * p.stage_tiles * tile_bytes,
                  from + static_cast<std::int64_t>(t) * tile_bytes, bytes, shared.weights_full(stage.place));
        stage.next();
      }
    });
  }
}

// So many warps. They begin while weights are still packed.
template <class Kind, int warps>
__device__ void fill_halos(const ConvParams& p, const Memory& memory) {
  constexpr Team team = Kind::team;
  constexpr int loads = team.producer_registers < 80 ? 16 : 32;  // that a thread has under way
  Ring slot{p.slots};
  Filler filler{static_cast<int>(threadIdx.x) - team.consumers * group_threads, warps * warp_threads};
  keep_item(item_at(p, blockIdx.x), memory.item());  // registers are short
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, keep_next_item(p, memory.item())) {
    const Corner corner = corner_of(p, *memory.item());
    for (int left = Kind::wide ? 1 : p.fills; left > 0; --left)  // 1: of one phase; known, as registers are short
      fill_box<typename Kind::Element, loads>(p, memory.shared, corner, memory.slots, slot, filler, [&](int first) {
        if (threadIdx.x / warp_threads == team.consumer_warps())  // the first of these warps tells consumers
          keep_with_result(p, *memory.item(), memory.item_of(first));
      });
  }
}

template <int n, int blocks>
__device__ void clear(float (&sums)[blocks][n / 2]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) x = 0;
}

// Chunks that were filled for tensor cores.
__device__ inline void pass_chunks(const ConvParams& p, const Shared& shared, Ring& slot) {
  for (int chunk = 0; chunk < p.chunks; ++chunk, slot.next()) {
    wait_together(shared.halo_full(slot.place), slot.parity);
    release_halo(shared, slot.place);
  }
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
      if (!p.resident && c.taps > 0) pass_chunks(p, shared, feed.halo);
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
    const bool shortly = with_route(route, [&]<int steps, Come come>() {
#pragma unroll
      for (int j = 0; j < joint; ++j) {
        accumulate_shortly<Kind, steps, come>(p, shared, p.classes[number + j], offset, feed, open, sums[j]);
      }
      multiply_wait<0>();
      if constexpr (come != Come::never) release_weights(shared, open.stage);
    });
    if (shortly) return;
  }
  sum_phases_any<Kind, joint>(p, memory, number, there, offset, feed, open, sums);
  if (open.slot >= 0) release_halo(shared, open.slot);
  if (open.stage >= 0) release_weights(shared, open.stage);
}

// From here on inline, however long: a call between products would make them wait for each other.

// Phase by phase to the output; neighbouring ones along w together.
template <class Kind>
__device__ __forceinline__ void run_phases(const ConvParams& p, int route, const int (&offset)[Kind::blocks],
                                           Feed& feed, const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks, joint = Kind::joint;
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

// into(sums), of phase after phase, on a short route where weights come in stages. What it does with them is known, and
// nothing is asked between.
template <class Kind, int steps, class Into>
__device__ __forceinline__ void fold_shortly(const ConvParams& p, const Shared& shared, const int (&offset)[1],
                                             Feed& feed, const Into& into) {
  feed.halo = uniform(feed.halo);
  feed.stage = uniform(feed.stage);
  int number = 0;
#pragma unroll 1
  do {
    float sums[1][1][Kind::columns / 2];
    Open open;
    accumulate_shortly<Kind, steps, Come::in_stages>(p, shared, p.classes[number], offset, feed, open, sums[0]);
    ++number;
    multiply_wait<0>();
    release_weights(shared, open.stage);
    into(sums);
  } while (number < p.class_count);
}

// All phases of a position into one result.
template <class Kind>
__device__ __forceinline__ void run_folded(const ConvParams& p, int route, const int (&offset)[Kind::blocks],
                                           Feed& feed, const Memory& memory) {
  static_assert(Kind::blocks == 1);
  constexpr int n = Kind::columns;
  using E = typename Kind::Element;
  Folded<n> folded(p.fold, *reinterpret_cast<float2*>(memory.place() + 1));  // behind the place of its only block
  const Fold::Kind kind = p.fold.kind;
  const auto shortly = [&](const auto& into) {
    if (route == Route::four_steps || route == Route::four_steps_whole)
      fold_shortly<Kind, 4>(p, memory.shared, offset, feed, into);
    else if (route == Route::two_steps || route == Route::two_steps_whole)
      fold_shortly<Kind, 2>(p, memory.shared, offset, feed, into);
    else
      return false;
    return true;
  };
  bool done = false;
  if (kind == Fold::sum_of_bare_norm)
    done = shortly([&](float(&x)[1][1][n / 2]) { folded.add_norm(p.quick, x); });
  else if (kind == Fold::max_of_sums)
    done = shortly([&](float(&x)[1][1][n / 2]) { folded.add_greater(x); });
  int number = done ? p.class_count : 0;
#pragma unroll 1
  for (; number < p.class_count; ++number) {
    float sums[1][1][n / 2];
    sum_phases<Kind, 1>(p, memory, route, number, 1, offset, feed, sums);
    fold_phase(p, lines_in<n>(memory.behind), sums, folded);
  }
  folded.end(p.fold);
  finish<E, Centred>(p.behind, lines_in<n>(memory.behind, 1), p,
                     Results<n, 1, 1>{p, memory, p.classes[0].phase, p.classes[0].result}, folded.results);
}

// The only phase, staged for the writers.
template <class Kind>
__device__ __forceinline__ void run_wide(const ConvParams& p, int route, const int (&offset)[Kind::blocks], Feed& feed,
                                         const Memory& memory, int& parity) {
  using E = typename Kind::Element;
  float sums[1][1][Kind::across / 2];
  const int number = p.phases[0] - 1;  // 0; but a class that the compiler knows would be walked in ordinary registers
  sum_phases<Kind, 1>(p, memory, route, number, 1, offset, feed, sums);
  wait_for_staging(memory.shared, parity);
  stage_block(p.quick, lines_in<Kind::columns>(memory.behind), sums[0][0], staged_in<E, Kind::columns>(memory.behind));
  hand_on_staged(memory.shared, parity);
}

template <class Kind>
__device__ __forceinline__ void consume(const ConvParams& p, const Memory& memory) {
  constexpr int blocks = Kind::blocks;
  const Shared& shared = memory.shared;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[blocks];  // of each block, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < blocks; ++b) offset[b] = p.block_place[group * blocks + b];
  Feed feed{{p.slots}, {p.stages}};
  if (p.all_weights && !shared.careful) {
    if (threadIdx.x == 0) load_weights(p, shared, Kind::columns * p.row_bytes);
    wait_together(shared.weights_full(0), 0);
  }
  int route = shared.careful ? Route::any : p.route;
  forget(route);
  if constexpr (Kind::way != Way::strip && !Kind::wide)
    find_places<Kind::columns, blocks, Kind::folds && sizeof(typename Kind::Element) == 2>(p, memory);
  int band = -1;  // whose lines are there
  [[maybe_unused]] int staged = 0;
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    wait_for_tile(p, shared, feed);
    keep_item(*memory.item_of(feed.halo.place), memory.item());
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::team.first_producer()>(p, uniform(memory.item()->band), band, memory.behind,
                                                             Kind::folds ? both_chains : first_chain);
    if constexpr (Kind::folds)
      run_folded<Kind>(p, route, offset, feed, memory);
    else if constexpr (Kind::wide)
      run_wide<Kind>(p, route, offset, feed, memory, staged);
    else
      run_phases<Kind>(p, route, offset, feed, memory);
    if (p.resident) release_tile(p, shared, feed);
  }
}

template <class Kind>
__global__ void __launch_bounds__(Kind::team.threads(), 1) conv_kernel(const __grid_constant__ ConvParams p) {
  constexpr Team team = Kind::team;
  constexpr int streamer = team.first_writer() - warp_threads;  // the first thread of the producers' last warp
  const int tile_bytes = Kind::columns * p.row_bytes;
  const bool all = all_fill(Kind::way, p.all_weights);
  Memory memory(p, tile_bytes, team.warps(), Kind::place_bytes);
  Shared& shared = memory.shared;
  if (threadIdx.x == 0)
    init_barriers(p, shared, team.halo_warps(all), team.consumer_warps(), Kind::pools ? team.consumers : team.writers,
                  Kind::pools ? group_threads : team.first_producer(), Kind::pools ? group_threads : group_warps);
  __syncthreads();
  if (threadIdx.x >= team.first_writer()) {
    if constexpr (team.writers > 0) give_registers<team.writer_registers>();
    if constexpr (Kind::pools) write_pooled<Kind>(p, memory);
    if constexpr (Kind::wide) {
      const auto* const staged = staged_in<typename Kind::Element, Kind::columns>(memory.behind);
      p.paired ? write_tiles<typename Kind::Element, 2>(p, shared, staged)
               : write_tiles<typename Kind::Element, 1>(p, shared, staged);
    }
  } else if (threadIdx.x >= team.first_producer()) {
    give_registers<team.producer_registers>();
    if (all)
      fill_halos<Kind, team.halo_warps(true)>(p, memory);
    else if (threadIdx.x < streamer)
      fill_halos<Kind, team.halo_warps(false)>(p, memory);
    else if (!p.all_weights && !must_be_careful(p) && threadIdx.x == streamer)
      stream_weights(p, shared, tile_bytes);
  } else {
    shared.careful = must_be_careful(p);
    take_registers<team.consumer_registers>();
    if constexpr (Kind::pools)
      consume_pooled<Kind>(p, memory);
    else
      consume<Kind>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
