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
#include "cuda/sm90/rows.cuh"
#include "cuda/sm90/wide.cuh"

namespace convt::core::cuda::sm90 {

// Weights that do not stay, by one thread. So many neighbouring phases along w are summed together.
template <int joint, bool cuts, bool turns>
__device__ void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const auto* const all = static_cast<const unsigned char*>(p.weights);
  Ring stage{p.stages};
  ItemShare share = cuts ? first_share(p) : ItemShare{0, 0, p.class_count, 0, 0};
  Item item = item_at(p, cuts ? share.number : static_cast<int>(blockIdx.x));
  // So many tiles, which are neighbours.
  const auto stream = [&](const unsigned char* from, int tiles) {
    for (; tiles > 0; tiles -= p.stage_tiles, from += p.stage_tiles * tile_bytes) {
      const int bytes = min(p.stage_tiles, tiles) * tile_bytes;
      wait(shared.weights_empty(stage.place), stage.parity ^ 1);
      arrive_expecting(shared.weights_full(stage.place), bytes);
      copy_bulk(shared.weights_address + stage.place * p.stage_tiles * tile_bytes, from, bytes,
                shared.weights_full(stage.place));
      stage.next();
    }
  };
  int left = items_of<turns>(p);
  bool more = true;
  while (more) {
    const auto* const band = all + static_cast<std::int64_t>(item.band) * p.taps * p.chunks * tile_bytes;
    for (int number = share.first; number < share.end;) {
      const int there = joint_phases<joint>(p, number);
      // Of joint phases chunk by chunk, as consumers need them.
      for (int chunk = 0; chunk < (joint == 1 ? 1 : p.chunks); ++chunk)
        for (int j = 0; j < there; ++j) {
          const Class& c = p.classes[number + j];
          stream(band + (c.first * p.chunks + chunk * c.taps) * static_cast<std::int64_t>(tile_bytes),
                 joint == 1 ? c.taps * p.chunks : c.taps);
        }
      number += there;
    }
    more = cuts ? share.more > 0 : --left > 0;
    cuts ? go_on(p, item, share) : step_on<turns>(p, item);
  }
}

// So many warps. They begin while weights are still packed.
template <class Kind, int warps>
__device__ void fill_halos(const ConvParams& p, const Memory& memory) {
  constexpr Team team = Kind::team;
  constexpr int loads = loads_of(team);
  Ring slot{p.slots};
  Filler filler{static_cast<int>(threadIdx.x) - team.first_producer(), warps * warp_threads};
  RangeGuard<typename Kind::Input> guard;
  // What it works on is in memory: registers are short.
  int number = blockIdx.x;
  if constexpr (Kind::cuts) {
    keep_share(first_share(p), memory.share());
    number = memory.share()->number;
  }
  keep_item(item_at(p, number), memory.item());
  int left = items_of<Kind::wide>(p);
  do {
    const Item& item = *memory.item();
    const auto tell = [&](int first) {
      if (threadIdx.x / warp_threads != team.consumer_warps()) return;  // the first of these warps tells consumers
      keep_with_result(p, item, memory.item_of(first));
      if constexpr (Kind::cuts) keep_share(*memory.share(), memory.share_of(first));
    };
    int times = 1;  // of one phase, or it stays
    if constexpr (Kind::cuts) times = fills_of<Kind::joint>(p, memory.share()->first, memory.share()->end);
    if constexpr (Kind::folds) times = fills_of<1>(p, 0, p.class_count);
    fill_box<typename Kind::Input, loads, Kind::cuts || Kind::folds, Kind::twins>(
        p, memory.shared, corner_of(p, item), memory.slots, slot, filler, times, tell, guard);
    keep_next<Kind::cuts, Kind::wide>(p, memory);
  } while (Kind::cuts ? memory.share()->more >= 0 : --left > 0);
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
  using Places = std::conditional_t<Kind::wide, PositionsAsColumns, PositionsAsRows<n, Kind::twins>>;
  const Shared& shared = memory.shared;
  if (shared.careful) {
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      if constexpr (Kind::halved) {
        accumulate_nothing(sums[j]);
      } else {
        const Item item = *memory.item();  // or its address is kept for a call that hardly ever comes
        const int own = number + (j < there ? j : 0), phase = p.classes[own].phase;
        accumulate_carefully<typename Kind::Element, n, 1, Places, blocks>(
            p, item, own, phase_along(phase, 0), phase_along(phase, 1), phase_along(phase, 2), sums[j]);
      }
    }
    if (!p.resident && has_taps(p, number, there)) pass_chunks(p, shared, feed.halo);
    return;
  }
  if constexpr (joint == 1) {
    const Class c = uniform(p.classes[number]);
    if (c.taps == 0) return clear<Kind::across, blocks>(sums[0]);
    accumulate<Kind>(p, shared, c, offset, feed, open, sums[0]);
  } else {
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      if (j < there && p.classes[number + j].taps > 0)
        leave_open(sums[j]);
      else
        clear<Kind::across, blocks>(sums[j]);
    }
    if (!has_taps(p, number, there)) return;
    accumulate_joint<Kind, joint>(p, shared, number, there, offset, feed, open, sums);
  }
  multiply_wait<0>();
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
  if constexpr (!Kind::wide && Kind::way != Way::deep) {  // of one phase, whose box does not stay; of any chunks
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
  using To = std::conditional_t<
      Kind::twins, TwinResults<n>,
      std::conditional_t<Kind::rows, RowResults<n, Kind::team.first_producer()>, Results<n, joint, blocks>>>;
  int number = p.item_shares == 1 ? 0 : uniform(memory.share()->first);
#pragma unroll 1
  do {
    const Class& c = p.classes[number];
    const int there = joint_phases<joint>(p, number);
    float sums[joint][blocks][Kind::across / 2];
    sum_phases<Kind, joint>(p, memory, route, number, there, offset, feed, sums);
    if constexpr (Kind::way == Way::strip)
      finish_in_strip<n>(p, *memory.item(), c.phase, sums[0][0], memory.behind);
    else
      finish<typename Kind::Element, Shifted>(p.quick, lines_in<n>(memory.behind), p, To{p, memory, c.phase, c.result},
                                              sums);
    number += there;
    // What an item has is found again, and only where some are cut: registers are short, and memory waits for products.
  } while (p.item_shares == 1 ? number < p.class_count : __any_sync(~0U, number < memory.share()->end));
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
  if constexpr (!Kind::twins && !Kind::rows) forget(route);  // or it is found again each time; these have no register
  if constexpr (Kind::rows)
    find_row_places<Kind::columns>(p, memory);
  else if constexpr (Kind::way != Way::strip && !Kind::wide)
    find_places<Kind::columns, blocks, Kind::folds && sizeof(typename Kind::Element) == 2, Kind::twins>(p, memory);
  [[maybe_unused]] int staged = 0;
  constexpr WhichChains chains = Kind::folds ? both_chains : first_chain;
  const auto fill = [&](int band, int before) {  // before: whose lines are there
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::team.first_producer()>(p, band, before, memory.behind, chains);
  };
  if (p.bands == 1) fill(0, -1);
  if (p.bands > 1) keep_item({0, -1, {0, 0, 0}, 0, 0}, memory.item());
  int left = items_of<Kind::wide>(p);
  do {
    wait_for_tile(p, shared, feed);
    const int before = p.bands == 1 ? 0 : uniform(memory.item()->band);
    keep_item(*memory.item_of(feed.halo.place), memory.item());
    if constexpr (Kind::cuts) keep_share(*memory.share_of(feed.halo.place), memory.share());
    if (p.bands > 1) fill(uniform(memory.item()->band), before);
    if constexpr (Kind::folds)
      run_folded<Kind>(p, route, offset, feed, memory);
    else if constexpr (Kind::wide)
      run_wide<Kind>(p, route, offset, feed, memory, staged);
    else
      run_phases<Kind>(p, route, offset, feed, memory);
    if (p.resident) release_tile(p, shared, feed);
  } while (Kind::cuts ? __any_sync(~0U, memory.share()->more > 0) : --left > 0);
}

template <class Kind>
__global__ void __launch_bounds__(Kind::team.threads(), 1) conv_kernel(const __grid_constant__ ConvParams p) {
  if (!must_run<Kind>(p)) return;
  constexpr Team team = Kind::team;
  constexpr int streamer = team.first_writer() - warp_threads;  // the first thread of the producers' last warp
  const int tile_bytes = Kind::columns * p.row_bytes;
  const bool all = all_fill(Kind::way, p.all_weights);
  Memory memory(p, tile_bytes, team.warps(), Kind::place_bytes, Kind::cuts);
  Shared& shared = memory.shared;
  if (threadIdx.x == 0) RangeGuard<typename Kind::Input>::clear(p);
  if (threadIdx.x == 0)
    init_barriers(p, shared, team.halo_warps(all), team.consumer_warps(), Kind::pools ? team.consumers : team.writers,
                  Kind::pools ? group_threads : team.first_producer());
  __syncthreads();
  if (threadIdx.x >= team.first_writer()) {
    if constexpr (team.writers > 0) give_registers<team.writer_registers>();
    if constexpr (Kind::pools) write_pooled<Kind>(p, memory);
    if constexpr (Kind::wide)
      p.paired ? write_tiles<typename Kind::Element, 2>(p, memory) : write_tiles<typename Kind::Element, 1>(p, memory);
  } else if (threadIdx.x >= team.first_producer()) {
    give_registers<team.producer_registers>();
    if (all)
      fill_halos<Kind, team.halo_warps(true)>(p, memory);
    else if (threadIdx.x < streamer)
      fill_halos<Kind, team.halo_warps(false)>(p, memory);
    else if (!p.all_weights && !must_be_careful<Kind>(p) && threadIdx.x == streamer)
      stream_weights<Kind::joint, Kind::cuts, Kind::wide>(p, shared, tile_bytes);
  } else {
    shared.careful = must_be_careful<Kind>(p);
    take_registers<team.consumer_registers>();
    if constexpr (Kind::pools)
      consume_pooled<Kind>(p, memory);
    else
      consume<Kind>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
