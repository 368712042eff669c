// SPDX-License-Identifier: Apache-2.0
// The convolution on Hopper's tensor cores. docs/hopper.md tells how one tile travels.
//
// Three warpgroups. One of producers reads the input, rounds it and writes halo tiles to shared memory,
// [pixel][channel]; one of its warps streams weights. Two warpgroups of consumers multiply: rows are positions, columns
// output channels. Every tap of every phase reads the same halo tile, from another row on. The chain runs on the sums.
#pragma once

#include "cuda/sm90/careful.cuh"
#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/halo.cuh"
#include "cuda/sm90/launchers.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr int consumer_registers = 176, producer_registers = 80;  // of 65536 / threads = 128

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
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const int band = item_at(p, i).band;
    for_each_phase(p, [&](int d, int h, int w) {
      const Class c = class_at(p, d, h, w);
      const int tiles = c.taps * p.chunks;
      const auto* const from = all + (static_cast<std::int64_t>(band) * p.taps + c.first) * p.chunks * tile_bytes;
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

template <class E>
__device__ void fill_halos(const ConvParams& p, const Shared& shared, unsigned char* slots) {
  Ring slot{p.slots};
  Filler filler{static_cast<int>(threadIdx.x) - consumers * group_threads, halo_warps * warp_threads};
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const Corner corner = corner_of(p, item_at(p, i));
    for (int fill = 0; fill < p.fills; ++fill) fill_box<E>(p, shared, corner, slots, slot, filler);
  }
}

// What consumers know of the rings.
struct Feed {
  Ring halo, stage;
  int turn = 0;  // parity
};

// The tiles of weights of one class, one after the other.
struct Weights {
  int tile = 0;  // the next one's place, in units of 16 bytes
  int left = 0;  // tiles of the open stage

  __device__ Weights(const ConvParams& p, const Shared& shared, const Class& c, int tile_units) {
    if (!p.all_weights) return;
    wait(shared.weights_full(0), 0);
    tile = c.first * p.chunks * tile_units;
    left = c.taps * p.chunks;
  }
  __device__ void open(const ConvParams& p, const Shared& shared, const Ring& stage, int tile_units) {
    wait(shared.weights_full(stage.place), stage.parity);
    tile = stage.place * p.stage_tiles * tile_units;
    left = p.stage_tiles;
  }
};
// A stage, in all blocks that have a part in it.
__device__ inline void release_weights(const ConvParams& p, const Shared& shared, int stage) {
  const int lane = threadIdx.x % warp_threads;
  if (lane < p.cluster) arrive_at(lane, shared.weights_empty(stage));
}

// The products of one chunk of channels; `offset` is of each block, in units of 16 bytes. Without loops inside a tap,
// whose ends would close groups of products. Behind the first tap, what was before is done: a stage, a slot. `spare`:
// there are registers to spare.
template <Format format, int n, bool spare, int steps, int blocks>
__device__ void multiply_chunk(const ConvParams& p, const Shared& shared, const Class& c, int chunk, int group,
                               const Ring& halo, const int (&offset)[blocks], Ring& stage, Weights& weights,
                               float (&sums)[blocks][n / 2]) {
  constexpr int step_units = step_bytes / 16;
  const bool speaks = threadIdx.x % warp_threads == 0;
  const int row_units = p.row_bytes / 16, tile_units = n * row_units;
  const Operand tile(shared.halo + halo.place * p.slot_bytes, p.group_rows, p.row_bytes);
  const Operand all_weights(shared.weights, 8, p.row_bytes);
  int place = shared.places[c.first];
  for (int tap = 0; tap < c.taps; ++tap) {
    const bool opens = weights.left == 0, goes_on = opens && chunk + tap > 0;
    const bool frees = tap == 0 && chunk > 0 && !p.resident;
    if (goes_on) stage.next();
    if (opens) weights.open(p, shared, stage, tile_units);
    const int a = place * row_units;
    place = shared.places[c.first + tap + 1];  // there is one more
    Operand rows[blocks];
#pragma unroll
    for (int i = 0; i < blocks; ++i) rows[i] = tile.at<spare>(a + offset[i]);
    const Operand columns = all_weights.at<spare>(weights.tile);
    multiply_begin();
    // The other warpgroup comes to its first products while the last ones of this phase are under way.
    if (p.turns && chunk + 1 == p.chunks && tap + 1 == c.taps && speaks) arrive(shared.turn(1 - group));
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int i = 0; i < blocks; ++i)
        multiply<format, n>(sums[i], rows[i].moved(k * step_units), columns.moved(k * step_units));
    multiply_commit();
    if (goes_on || frees) multiply_wait<1>();
    if (goes_on) release_weights(p, shared, stage.before());
    if (frees && speaks) arrive(shared.halo_empty(halo.before()));
    weights.tile += tile_units;
    --weights.left;
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

// The products of one class into the sums of the warpgroup's blocks.
template <Format format, int n, bool spare, int blocks>
__device__ void accumulate(const ConvParams& p, const Shared& shared, const Class& c, Feed& feed,
                           float (&sums)[blocks][n / 2]) {
  const int group = __shfl_sync(~0U, threadIdx.x / group_threads, 0);
  const int row_units = p.row_bytes / 16;
  int offset[blocks];
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const int(&at)[3] = p.origin[group * blocks + b];
    offset[b] = (c.row + (at[0] * p.axis[1].halo + at[1]) * p.axis[2].halo + at[2]) * row_units;
  }
  Weights weights(p, shared, c, n * row_units);
  Ring halo = feed.halo;
  // The first warpgroup begins; a barrier that nobody has passed counts as its first turn.
  if (p.turns) wait(shared.turn(group), feed.turn ^ (group == 0));
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait(shared.halo_full(halo.place), halo.parity);
    with_steps(chunk + 1 == p.chunks ? p.last_steps : p.row_bytes / step_bytes, [&]<int steps>() {
      multiply_chunk<format, n, spare, steps>(p, shared, c, chunk, group, halo, offset, feed.stage, weights, sums);
    });
    halo.next();
  }
  feed.turn ^= 1;
  multiply_wait<0>();
  if (!p.all_weights) {
    release_weights(p, shared, feed.stage.place);
    feed.stage.next();
  }
  if (!p.resident) {
    if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(halo.before()));
    feed.halo = halo;
  }
}

// Frees the chunks of a tile that is done.
__device__ inline void release_tile(const ConvParams& p, const Shared& shared, Feed& feed) {
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait(shared.halo_full(feed.halo.place), feed.halo.parity);
    __syncwarp();  // a lane that comes later would wait for what is filled next
    if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(feed.halo.place));
    feed.halo.next();
  }
}

template <int n, int blocks>
__device__ void clear(float (&sums)[blocks][n / 2]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) x = 0;
}

template <class Kind>
__device__ void sum_phase(const ConvParams& p, const Shared& shared, int item, const int (&phase)[3], Feed& feed,
                          float (&sums)[Kind::blocks][Kind::columns / 2]) {
  const Class c = class_at(p, phase[0], phase[1], phase[2]);
  if (c.taps == 0) return;
  if (shared.careful)
    accumulate_carefully<typename Kind::Element, Kind::columns, 1, Kind::blocks>(p, item, phase[0], phase[1], phase[2],
                                                                                 sums);
  else
    accumulate<Kind::format, Kind::columns, Kind::spare>(p, shared, c, feed, sums);
}

// Phase by phase to the output; neighbouring ones along w together.
template <class Kind>
__device__ void run_phases(const ConvParams& p, const Shared& shared, int item, Feed& feed, const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks, joint = Kind::joint;
  for (int d = 0; d < phases(p.axis[0]); ++d)
    for (int h = 0; h < phases(p.axis[1]); ++h)
      for (int w = 0; w < phases(p.axis[2]); w += joint) {
        float sums[joint][blocks][n / 2];
#pragma unroll
        for (int j = 0; j < joint; ++j) {
          clear<n, blocks>(sums[j]);
          if (w + j >= phases(p.axis[2])) continue;
          sum_phase<Kind>(p, shared, item, {d, h, w + j}, feed, sums[j]);
        }
        const int phase[3] = {d, h, w};
        if constexpr (Kind::way == Way::strip)
          finish_in_strip<n>(p, *memory.item, phase, sums[0][0], memory.behind);
        else
          finish<typename Kind::Element>(p.quick, lines_in<n>(memory.behind), p, *memory.item, phase, sums);
      }
}

// All phases of a position into one result.
template <class Kind>
__device__ void run_folded(const ConvParams& p, const Shared& shared, int item, Feed& feed, const Memory& memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks;
  using E = typename Kind::Element;
  float folded[1][blocks][n / 2];
  start_fold<n>(p.fold, folded);
  for_each_phase(p, [&](int d, int h, int w) {
    float sums[1][blocks][n / 2];
    clear<n, blocks>(sums[0]);
    sum_phase<Kind>(p, shared, item, {d, h, w}, feed, sums[0]);
    fold_phase<E>(p, lines_in<n>(memory.behind), sums, folded);
  });
  const int phase[3] = {0, 0, 0};
  finish<E>(p.behind, lines_in<n>(memory.behind, 1), p, *memory.item, phase, folded);
}

template <class Kind>
__device__ void consume(const ConvParams& p, const Memory& memory) {
  const Shared& shared = memory.shared;
  Feed feed{{p.slots}, {p.stages}};
  int band = -1;  // whose lines are there
  for (int item = blockIdx.x; item < p.items; item += gridDim.x) {
    keep_item(item_at(p, item), memory.item);
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::way == Way::folded>(p, memory.item->band, band, memory.behind);
    if constexpr (Kind::way == Way::folded)
      run_folded<Kind>(p, shared, item, feed, memory);
    else
      run_phases<Kind>(p, shared, item, feed, memory);
    if (p.resident && !shared.careful) release_tile(p, shared, feed);
  }
}

template <class Kind>
__global__ void __launch_bounds__(threads, 1) conv_kernel(const __grid_constant__ ConvParams p) {
  const int tile_bytes = Kind::columns * p.row_bytes;
  const Memory memory(p, tile_bytes);
  const Shared& shared = memory.shared;
  if (threadIdx.x == 0) init_barriers(p, shared, halo_warps);
  sync_blocks(p);
  if (threadIdx.x >= consumers * group_threads) {
    give_registers<producer_registers>();
    if (threadIdx.x < threads - warp_threads && !shared.careful)
      fill_halos<typename Kind::Element>(p, shared, memory.slots);
    else if (threadIdx.x == threads - warp_threads && !shared.careful)
      stream_weights(p, shared, tile_bytes);
  } else {
    take_registers<consumer_registers>();
    consume<Kind>(p, memory);
  }
  if (p.cluster > 1) sync_cluster();  // no block leaves while others may write to its shared memory
}

}  // namespace convt::core::cuda::sm90
