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
#include "cuda/sm90/wide.cuh"

namespace convt::core::cuda::sm90 {

// By one thread. Blocks of a cluster load a part of each stage for all of them.
__device__ inline void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const auto* const all = static_cast<const unsigned char*>(p.weights);
  if (p.all_weights) {
    const int bytes = p.taps * p.chunks * tile_bytes;
    arrive_expecting(shared.weights_full(0), bytes);
    copy_bulk(shared.weights, all, bytes, shared.weights_full(0));
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
        const std::uint32_t to = shared.weights + stage.place * p.stage_tiles * tile_bytes + rank * part;
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

// once: not again for each phase.
template <class E, int loads, bool once>
__device__ void fill_halos(const ConvParams& p, const Shared& shared, unsigned char* slots, const Team& team) {
  Ring slot{p.slots};
  Filler filler{static_cast<int>(threadIdx.x) - team.consumers * group_threads, team.halo_warps() * warp_threads};
  Item item = item_at(p, blockIdx.x);
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, go_on(p, item)) {
    const Corner corner = corner_of(p, item);
    for (int fill = 0; fill < (once ? 1 : p.fills); ++fill) fill_box<E, loads>(p, shared, corner, slots, slot, filler);
  }
}

// What consumers know of the rings. The same for all threads of a warp, but what each has seen.
struct Feed {
  Ring halo, stage;
  bool passed = false;  // the next stage was there when this thread looked
  int there = 0;        // not 0: so are all chunks of the tile, where they stay
};

// Where in the halo tile a warpgroup's blocks meet the taps of a class, one after the other; in units of 16 bytes.
struct Walk {
  int place, h, w;  // h, w: taps that are left
  int along_h, along_w, step, line, plane;

  __device__ Walk(const ConvParams& p, const Class& c, int first)
      : place(first),
        h(c.along_h),
        w(c.along_w),
        along_h(h),
        along_w(w),
        step(p.tap_step),
        line(c.line),
        plane(c.plane) {}
  __device__ void next() {
    place += step;
    if (--w > 0) return;
    w = along_w;
    place += line;
    if (--h > 0) return;
    h = along_h;
    place += plane;
  }
};

// What a warpgroup has open while products are under way.
struct Open {
  int tile = 0;     // of weights, the next one's place
  int left = 0;     // tiles of this stage
  int stage = -1;   // it has open; none
  int behind = -1;  // the stage and
  int slot = -1;    // the slot that are to be released when the products before the last tap's are done
  int add = 0;      // not 0: sums have products already
};
// A stage, in all blocks that have a part in it: a lane for each.
__device__ inline void release_weights(const ConvParams& p, const Shared& shared, int stage) {
  const int lane = threadIdx.x % warp_threads;
  if (lane < p.cluster) arrive_at(lane, shared.weights_empty(stage));
}
__device__ inline void release_halo(const Shared& shared, int slot) {
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(slot));
}

// The products of one chunk of channels; `offset` is of each block, in units of 16 bytes. Taps come in runs, of those
// that one stage has weights for: what waits and what is released is left to their ends.
template <class Kind, int steps, int blocks = Kind::blocks>
__device__ void multiply_chunk(const ConvParams& p, const Shared& shared, const Class& c, const int (&offset)[blocks],
                               Feed& feed, Open& open, float (&sums)[blocks][Kind::across / 2]) {
  constexpr int step_units = step_bytes / 16;
  const int tile_units = Kind::columns * (p.row_bytes / 16);
  const Operand tile(shared.halo + feed.halo.place * p.slot_bytes, p.group_rows, p.row_bytes);
  const Operand weights(shared.weights, 8, p.row_bytes);
  Walk walk(p, c, tile.place + c.place);
  for (int left = c.taps; left > 0;) {
    if (open.left == 0) {
      open.behind = open.stage;
      open.stage = feed.stage.place;
      wait_together(shared.weights_full(open.stage), feed.stage.parity, feed.passed);
      feed.stage.next();
      open.tile = weights.place + open.stage * p.stage_tiles * tile_units;
      open.left = p.stage_tiles;
    }
    feed.passed = has_passed(shared.weights_full(feed.stage.place), feed.stage.parity);  // known when it is needed
    const int run = min(left, open.left);
    left -= run;
    open.left -= run;
    // Without loops inside, whose ends would close groups of products.
    const auto multiply_taps = [&]<int taps>() {
      multiply_begin();
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
        for (int k = 0; k < steps; ++k)
#pragma unroll
          for (int i = 0; i < blocks; ++i) {
            const std::uint64_t positions = tile.at(walk.place + offset[i] + k * step_units);
            const std::uint64_t channels = weights.at(open.tile + k * step_units);
            multiply<Kind::format, Kind::across>(sums[i], Kind::wide ? channels : positions,
                                                 Kind::wide ? positions : channels, tap == 0 && k == 0 ? open.add : 1);
          }
        open.add = 1;
        walk.next();
        open.tile += tile_units;
      }
      multiply_commit();
    };
    int taps = run;
#pragma unroll 1
    for (; taps >= 2; taps -= 2) multiply_taps.template operator()<2>();
    if (taps > 0) multiply_taps.template operator()<1>();
    if (open.behind < 0 && open.slot < 0) continue;
    multiply_wait<1>();
    if (open.behind >= 0) release_weights(p, shared, open.behind);
    if (open.slot >= 0) release_halo(shared, open.slot);
    open.behind = open.slot = -1;
  }
}

// f.operator()<steps>(), of 1 to 4 matrix instructions along a row.
template <class F>
__device__ void with_steps(int steps, F&& f) {
  switch (steps) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    default:
      return f.template operator()<4>();
  }
}

// The products of one class into the sums of the warpgroup's blocks; they are under way when it returns.
template <class Kind, int blocks = Kind::blocks>
__device__ void accumulate(const ConvParams& p, const Shared& shared, const Class& c, const int (&offset)[blocks],
                           Feed& feed, Open& open, float (&sums)[blocks][Kind::across / 2]) {
  open.tile = Operand(shared.weights, 8, p.row_bytes).place + c.first * p.chunks * Kind::columns * (p.row_bytes / 16);
  open.left = p.all_weights ? c.taps * p.chunks : 0;  // a class begins with a stage
  open.add = 0;
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) leave_open(x);
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (feed.there == 0) wait_together(shared.halo_full(feed.halo.place), feed.halo.parity);
    with_steps(chunk + 1 == p.chunks ? p.last_steps : p.row_bytes / step_bytes,
               [&]<int steps>() { multiply_chunk<Kind, steps>(p, shared, c, offset, feed, open, sums); });
    if (!p.resident) open.slot = feed.halo.place;
    feed.halo.next();
  }
}

// Frees the chunks of a tile that is done.
__device__ inline void release_tile(const ConvParams& p, const Shared& shared, Feed& feed) {
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (feed.there == 0) wait_together(shared.halo_full(feed.halo.place), feed.halo.parity);
    release_halo(shared, feed.halo.place);
    feed.halo.next();
  }
  feed.there = 0;
}

template <int n, int blocks>
__device__ void clear(float (&sums)[blocks][n / 2]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) x = 0;
}

// The sums of neighbouring phases along w, of a number that occurs; `number` is the first one's class.
template <class Kind, int joint>
__device__ void sum_phases(const ConvParams& p, const Memory& memory, int number, const int (&phase)[3],
                           const int (&offset)[Kind::blocks], Feed& feed,
                           float (&sums)[joint][Kind::blocks][Kind::across / 2]) {
  constexpr int n = Kind::columns, blocks = Kind::blocks;
  using Places = std::conditional_t<Kind::wide, PositionsAsColumns, PositionsAsRows<n>>;
  const Shared& shared = memory.shared;
  feed.halo = uniform(feed.halo);
  feed.stage = uniform(feed.stage);
  Open open;
  const Ring tile = feed.halo;
#pragma unroll
  for (int j = 0; j < joint; ++j) {
    const Class c = uniform(p.classes[number + j]);
    const bool occurs = j == 0 || phase[2] + j < p.phases[2];
    if (shared.careful && occurs) {
      accumulate_carefully<typename Kind::Element, n, 1, Places, blocks>(p, *memory.item(), number + j, phase[0],
                                                                         phase[1], phase[2] + j, sums[j]);
    } else if (!occurs || c.taps == 0) {
      clear<Kind::across, blocks>(sums[j]);
    } else {
      if (p.resident) feed.halo = tile;
      accumulate<Kind>(p, shared, c, offset, feed, open, sums[j]);
      if (p.resident) feed.there = 1;
      multiply_wait<0>();
    }
  }
  if (open.stage >= 0) release_weights(p, shared, open.stage);
  if (open.slot >= 0) release_halo(shared, open.slot);
  if (p.resident) feed.halo = tile;
}

// Phase by phase to the output; neighbouring ones along w together.
template <class Kind>
__device__ void run_phases(const ConvParams& p, const int (&offset)[Kind::blocks], Feed& feed, const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks, joint = Kind::joint;
  const Bounds<blocks> bounds(p, *memory.item());
  int number = 0;
  for (int d = 0; d < p.phases[0]; ++d)
    for (int h = 0; h < p.phases[1]; ++h, number += p.phases[2])
      for (int w = 0; w < p.phases[2]; w += joint) {
        const int phase[3] = {d, h, w};
        float sums[joint][blocks][Kind::across / 2];
        sum_phases<Kind, joint>(p, memory, number + w, phase, offset, feed, sums);
        if constexpr (Kind::way == Way::strip)
          finish_in_strip<n>(p, *memory.item(), phase, sums[0][0], memory.behind);
        else
          finish<typename Kind::Element>(
              p.quick, lines_in<n>(memory.behind), p,
              [&]<class To>() {
                return Writer<To, n, joint, blocks>(p, rows_of<n, blocks>(p, *memory.item(), bounds, phase),
                                                    memory.item()->band);
              },
              sums);
      }
}

// All phases of a position into one result.
template <class Kind>
__device__ void run_folded(const ConvParams& p, const int (&offset)[Kind::blocks], Feed& feed, const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks;
  using E = typename Kind::Element;
  float folded[1][blocks][Kind::across / 2];
  start_fold<Kind::across>(p.fold, folded);
  int number = 0;
  for (int d = 0; d < p.phases[0]; ++d)
    for (int h = 0; h < p.phases[1]; ++h)
      for (int w = 0; w < p.phases[2]; ++w, ++number) {
        float sums[1][blocks][Kind::across / 2];
        sum_phases<Kind, 1>(p, memory, number, {d, h, w}, offset, feed, sums);
        fold_phase(p, lines_in<n>(memory.behind), sums, folded);
      }
  const auto writer = [&]<class To>() {
    const Bounds<blocks> bounds(p, *memory.item());
    return Writer<To, n, 1, blocks>(p, rows_of<n, blocks>(p, *memory.item(), bounds, {0, 0, 0}), memory.item()->band);
  };
  finish<E>(p.behind, lines_in<n>(memory.behind, 1), p, writer, folded);
}

// The only phase, staged for the writers.
template <class Kind>
__device__ void run_wide(const ConvParams& p, const int (&offset)[Kind::blocks], Feed& feed, const Memory& memory,
                         int& parity) {
  using E = typename Kind::Element;
  float sums[1][1][Kind::across / 2];
  const int number = p.phases[0] - 1;  // 0; but a class that the compiler knows would be walked in ordinary registers
  sum_phases<Kind, 1>(p, memory, number, {0, 0, 0}, offset, feed, sums);
  wait_for_staging(memory.shared, parity);
  stage_block(p.quick, lines_in<Kind::columns>(memory.behind), sums[0][0], staged_in<E, Kind::columns>(memory.behind));
  hand_on_staged(memory.shared, parity);
}

template <class Kind>
__device__ void consume(const ConvParams& p, const Memory& memory) {
  constexpr int blocks = Kind::blocks;
  const Shared& shared = memory.shared;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[blocks];  // of each block, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < blocks; ++b) offset[b] = p.block_place[group * blocks + b];
  Feed feed{{p.slots}, {p.stages}};
  if (p.all_weights && !shared.careful) wait_together(shared.weights_full(0), 0);
  int band = -1;  // whose lines are there
  [[maybe_unused]] int staged = 0;
  keep_item(item_at(p, blockIdx.x), memory.item());
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, keep_next_item(p, memory.item())) {
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::folds, Kind::team.consumers * group_threads>(p, uniform(memory.item()->band),
                                                                                   band, memory.behind);
    if constexpr (Kind::folds)
      run_folded<Kind>(p, offset, feed, memory);
    else if constexpr (Kind::wide)
      run_wide<Kind>(p, offset, feed, memory, staged);
    else
      run_phases<Kind>(p, offset, feed, memory);
    if (p.resident && !shared.careful) release_tile(p, shared, feed);
  }
}

template <class Kind>
__global__ void __launch_bounds__(Kind::team.threads(), 1) conv_kernel(const __grid_constant__ ConvParams p) {
  constexpr Team team = Kind::team;
  constexpr int streamer = team.first_writer() - warp_threads;   // the first thread of the producers' last warp
  constexpr int loads = team.producer_registers < 80 ? 16 : 32;  // that a producer has under way
  const int tile_bytes = Kind::columns * p.row_bytes;
  const Memory memory(p, tile_bytes, team.consumer_warps());
  const Shared& shared = memory.shared;
  if (threadIdx.x == 0) init_barriers(p, shared, team.halo_warps(), team.consumer_warps(), team.writers * group_warps);
  sync_blocks(p);
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
      fill_halos<typename Kind::Element, loads, Kind::wide>(p, shared, memory.slots, team);
    else if (threadIdx.x == streamer && !shared.careful)
      stream_weights(p, shared, tile_bytes);
  } else {
    take_registers<team.consumer_registers>();
    consume<Kind>(p, memory);
  }
  if (p.cluster > 1) sync_cluster();  // no block leaves while others may write to its shared memory
}

}  // namespace convt::core::cuda::sm90
