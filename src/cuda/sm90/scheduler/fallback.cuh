// SPDX-License-Identifier: Apache-2.0
// Selects the work tiles that the fallback kernel (tf32, tf32x3) recomputes: those of blocks of the first kernel whose
// inputs were beyond f16's range. Mostly there are none.
//
// The two kernels have different tiles. Each block of the fallback kernel marks the work tiles of its own launch that
// overlap tiles of flagged blocks, in shared memory that nothing else uses yet. Then it lists its share of them.
#pragma once

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/scheduler/flags.cuh"
#include "cuda/sm90/scheduler/work_tile.cuh"

namespace convt::core::cuda::sm90 {

// The work tile that a block had in a round.
__device__ inline int number_of(const TileAssignment& assignment, int block, int round) {
  if (assignment.planes > 0) {
    const int rounds = assignment.work_tiles / assignment.grid, left = assignment.work_tiles - rounds * assignment.grid;
    if (round < rounds) return block + round * assignment.grid;
    const std::int64_t first = static_cast<std::int64_t>(left) * assignment.planes * block / assignment.grid;
    return rounds * assignment.grid + static_cast<int>(first / assignment.planes) + round - rounds;
  }
  if (assignment.rotates) return round * assignment.grid + (block + round) % assignment.grid;
  if (round < assignment.whole_each) return block + round * assignment.grid;
  const int first = block * assignment.partials + min(block, assignment.more_partials);
  return assignment.whole_work_tiles + first / assignment.tile_partials + round - assignment.whole_each;
}

// An upper bound of a block's rounds.
__device__ inline int rounds_of(const TileAssignment& assignment, int block) {
  if (assignment.planes > 0) return assignment.work_tiles / assignment.grid + 2;
  if (assignment.rotates) return assignment.whole_each + 1;
  const int first = block * assignment.partials + min(block, assignment.more_partials);
  const int count = assignment.partials + (block < assignment.more_partials ? 1 : 0);
  return assignment.whole_each +
         (count == 0 ? 0 : (first + count - 1) / assignment.tile_partials - first / assignment.tile_partials + 1);
}

// Marks this launch's work tiles that overlap a work tile of the first launch.
__device__ inline void mark_work_tiles(const ConvParams& p, int number, unsigned* marks) {
  const TileAssignment& assignment = p.fallback.first;
  if (number >= assignment.work_tiles) return;
  number /= assignment.bands;
  int first[3] = {}, last[3] = {};
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    const int tile = number % assignment.tiles[a], begin = tile * assignment.extent[a];
    number /= assignment.tiles[a];
#pragma unroll
    for (int b = 0; b < 3; ++b) {
      if (assignment.axis[a] != b) continue;
      const ConvAxis& axis = p.axis[b];
      first[b] = begin / (axis.tile * axis.stride);
      last[b] = (min(begin + assignment.extent[a], axis.size) - 1) / (axis.tile * axis.stride);
    }
  }
  for (int d = first[0]; d <= last[0]; ++d)
    for (int h = first[1]; h <= last[1]; ++h)
      for (int w = first[2]; w <= last[2]; ++w) {
        const int tile = ((number * p.axis[0].tiles + d) * p.axis[1].tiles + h) * p.axis[2].tiles + w;
        for (int work = tile * p.bands; work < (tile + 1) * p.bands; ++work)
          atomicOr(reinterpret_cast<int*>(marks + work / 32), static_cast<int>(1U << work % 32));
      }
}

// A block's slice of the listed work tiles.
struct ListSlice {
  int rounds = 0, whole = 0;            // full rounds, with one tile for each block; work tiles in all of these
  int first = 0, work_tiles = 0;        // the block's neighbouring work tiles after those
  int first_partial = 0, partials = 0;  // if work tiles are split

  // Deals out sliding tiles as scheduler/sliding_planes.cuh does, split work tiles as Partials does, and others in
  // rounds.
  template <class Traits>
  __device__ static ListSlice of(const ConvParams& p, int all) {
    const int block = blockIdx.x, grid = gridDim.x;
    ListSlice slice;
    if constexpr (Traits::splits) {
      const int partials = all * p.tile_partials, each = partials / grid, more = partials % grid;
      const int first = block * each + min(block, more);
      slice.partials = each + (block < more ? 1 : 0);
      slice.first = first / p.tile_partials;
      slice.first_partial = first % p.tile_partials;
      slice.work_tiles = (slice.first_partial + slice.partials + p.tile_partials - 1) / p.tile_partials;
      if (slice.partials == 0) slice.work_tiles = 0;
      return slice;
    }
    slice.rounds = all / grid;
    slice.whole = slice.rounds * grid;
    const int left = all - slice.whole;
    slice.first = block;
    slice.work_tiles = block < left ? 1 : 0;
    if constexpr (Traits::slides) {
      const std::int64_t planes = static_cast<std::int64_t>(left) * p.axis[0].size;
      slice.first = static_cast<int>(planes * block / grid / p.axis[0].size);
      const int last = static_cast<int>(planes * (block + 1) / grid / p.axis[0].size);
      slice.work_tiles = max(min(last, left - 1) - slice.first + 1, 0);
    }
    return slice;
  }
  // The round of a work tile; -1 if it belongs to another block.
  __device__ int round_of(int work) const {
    const int block = blockIdx.x, grid = gridDim.x;
    if (work < whole) return work % grid == block ? work / grid : -1;
    const int after = work - whole - first;
    return after >= 0 && after < work_tiles ? rounds + after : -1;
  }
};

// Lists a block's share of the marked work tiles; returns how many there are. All threads of a block call it.
template <class Traits>
__device__ int list_work_tiles(const ConvParams& p, const unsigned* marks, int* counts) {
  constexpr int threads = Traits::roles.threads();
  const int thread = threadIdx.x, words = (p.work_tiles + 31) / 32, each = (words + threads - 1) / threads;
  const int begin = min(thread * each, words), end = min(begin + each, words);
  int own = 0, before = 0, all = 0;
  for (int i = begin; i < end; ++i) own += __popc(marks[i]);
  counts[thread] = own;
  __syncthreads();
  for (int i = 0; i < threads; ++i) {
    before += i < thread ? counts[i] : 0;
    all += counts[i];
  }
  int* const list = p.fallback.of_block(blockIdx.x);
  const ListSlice slice = ListSlice::of<Traits>(p, all);
  for (int i = begin; i < end; ++i)
    for (unsigned left = marks[i]; left != 0; left &= left - 1) {
      const int round = slice.round_of(before++);
      if (round >= 0) list[list_header + round] = i * 32 + __ffs(static_cast<int>(left)) - 1;
    }
  const int work_tiles = slice.rounds + slice.work_tiles;
  if (thread == 0) {
    list[0] = all;
    list[1] = work_tiles;
    list[2] = slice.first_partial;
    list[3] = slice.partials;
  }
  return work_tiles;
}

// Whether the block has work tiles to recompute. All threads of a block call it; it overwrites dynamic shared memory.
template <class Traits>
__device__ __noinline__ bool must_recompute(const ConvParams& p) {
  constexpr int threads = Traits::roles.threads();
  wait_for_kernel_before();
  const TileAssignment& assignment = p.fallback.first;
  int* const list = p.fallback.of_block(blockIdx.x);
  const auto for_blocks = [&](const auto& f) {
    for (int block = threadIdx.x; block < assignment.grid; block += threads) f(block, assignment.flags[block]);
  };
  unsigned some = 0;
  for_blocks([&](int, unsigned flag) { some |= flag; });
  if (any_flag(p.weight_guard)) some |= recompute_all;
  if (__syncthreads_or(some != 0 ? 1 : 0) == 0) return false;
  bool whole = __syncthreads_or((some & recompute_all) != 0 ? 1 : 0) != 0 || p.work_tiles > p.fallback.most_work_tiles;
  if (!whole) {
    auto* const marks = reinterpret_cast<unsigned*>(dynamic_shared());
    const int words = (p.work_tiles + 31) / 32;
    for (int i = threadIdx.x; i < words; i += threads) marks[i] = 0;
    __syncthreads();
    for_blocks([&](int block, unsigned flag) {
      const int count = flag != 0 ? rounds_of(assignment, block) : 0;
      for (int round = 0; round < count; ++round) mark_work_tiles(p, number_of(assignment, block, round), marks);
    });
    __syncthreads();
    const int work_tiles = list_work_tiles<Traits>(p, marks, reinterpret_cast<int*>(marks + words));
    __syncthreads();
    whole = list[0] == p.work_tiles;  // then no list is needed
    if (!whole && work_tiles == 0) return false;
    __syncthreads();  // before list[0] is written
  }
  if (whole && threadIdx.x == 0) list[0] = -1;
  __syncthreads();
  return true;
}

}  // namespace convt::core::cuda::sm90
