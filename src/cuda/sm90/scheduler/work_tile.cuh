// SPDX-License-Identifier: Apache-2.0
// Work tiles: which tile a block computes next, whole or in part.
#pragma once

#include "cuda/common/block.hpp"
#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/instructions.cuh"

namespace convt::core::cuda::sm90 {

// Lane 0's value. The compiler then knows that it is uniform in the warp.
__device__ inline int uniform(int value) { return __shfl_sync(~0U, value, 0); }

// A tile of an image and a band of output channels. round: the number of work tiles that the block had before. result:
// result_of(), where it is needed.
struct alignas(16) WorkTile {
  int image, band, tile[3], round;
  std::int64_t result;
};
static_assert(sizeof(WorkTile) == work_tile_bytes);
__device__ inline WorkTile work_tile_at(const ConvParams& p, int number, int round = 0) {
  WorkTile work{};
  work.band = number % p.bands;
  number /= p.bands;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    work.tile[a] = number % p.axis[a].tiles;
    number /= p.axis[a].tiles;
  }
  work.image = number;
  work.round = round;
  return work;
}

// This block's list of work tiles, if a fallback kernel recomputes only some (scheduler/fallback.cuh).
__device__ inline const int* block_list(const ConvParams& p) {
  int block = blockIdx.x;
  opaque(block);  // recomputed, to save registers
  return p.fallback.of_block(block);
}
template <class Traits>
__device__ bool is_listed(const ConvParams& p) {
  return Traits::lists_work && p.fallback.list != nullptr && block_list(p)[0] >= 0;
}
__device__ inline int listed_count(const ConvParams& p) { return block_list(p)[1]; }
__device__ inline int listed_number(const ConvParams& p, int round) {
  const int* const list = block_list(p);
  return list[list_header + min(round, list[1] - 1)];
}

// A block's first work tile, if none is split.
template <class Traits>
__device__ WorkTile first_work_tile(const ConvParams& p) {
  return work_tile_at(p, is_listed<Traits>(p) ? listed_number(p, 0) : static_cast<int>(blockIdx.x));
}
// Advances to the block's next work tile, by additions unless there is a list.
template <class Traits>
__device__ void advance_work(const ConvParams& p, WorkTile& work) {
  ++work.round;
  if (is_listed<Traits>(p)) {
    work = work_tile_at(p, listed_number(p, work.round), work.round);
    return;
  }
  const bool wraps = Traits::rotates && p.rotates && (static_cast<int>(blockIdx.x) + work.round) % p.grid == 0;
  work.band += p.band_steps[wraps];
  const bool over = work.band >= p.bands;
  if (over) work.band -= p.bands;
  int carry = 0;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    work.tile[a] += p.work_steps[wraps][over].tile[a] + carry;
    carry = work.tile[a] >= p.axis[a].tiles ? 1 : 0;
    if (carry != 0) work.tile[a] -= p.axis[a].tiles;
  }
  work.image += p.work_steps[wraps][over].image + carry;
}
// The number of a block's work tiles, if none is split; at least one.
template <class Traits>
__device__ int work_tile_count(const ConvParams& p) {
  if (is_listed<Traits>(p)) return listed_count(p);
  int last = blockIdx.x;  // its index in the last, incomplete round
  if (Traits::rotates && p.rotates) last = (last + p.whole_each) % p.grid;
  return p.whole_each + (last < p.work_tiles - p.whole_work_tiles ? 1 : 0);
}

// A block's part of a work tile, if work tiles may be split. Blocks take whole tiles in rounds, neighbours at the same
// time, as these share inputs. The tiles that are left are split by phases into partial tiles. Every block has the same
// number of partial tiles, or one more, so that all end together.
struct alignas(16) PartialTile {
  int number;      // of the work tile
  int first, end;  // its phases
  int left;        // partial tiles that the block still has, this one's included
  int more;        // work tiles that the block still has after this one
};
static_assert(sizeof(PartialTile) == partial_tile_bytes);
// A block's partial tiles.
struct Partials {
  int first, count;

  __device__ explicit Partials(const ConvParams& p) {
    int block = blockIdx.x;
    opaque(block);  // recomputed, to save registers
    first = block * p.partials + min(block, p.more_partials);
    count = p.partials + (block < p.more_partials ? 1 : 0);
  }
  __device__ int work_tiles(const ConvParams& p) const {
    return count == 0 ? 0 : (first % p.tile_partials + count + p.tile_partials - 1) / p.tile_partials;
  }
};
// Takes the partial tiles that the block still has, as far as the work tile has phases.
__device__ inline void take_partials(const ConvParams& p, PartialTile& partial) {
  partial.end = min(partial.first + partial.left * p.partial_phases, p.phase_count);
}
__device__ inline PartialTile split_partial(const ConvParams& p) {  // the block's first one
  const Partials partials(p);
  PartialTile partial{};
  partial.number = p.whole_work_tiles + partials.first / p.tile_partials;
  partial.first = partials.first % p.tile_partials * p.partial_phases;
  partial.left = partials.count;
  partial.more = partials.work_tiles(p) - 1;
  take_partials(p, partial);
  return partial;
}
template <class Traits>
__device__ PartialTile first_partial(const ConvParams& p) {  // every block has one
  if (is_listed<Traits>(p)) {
    const int* const list = block_list(p);
    PartialTile partial{listed_number(p, 0), list[2] * p.partial_phases, 0, list[3], list[1] - 1};
    take_partials(p, partial);
    return partial;
  }
  if (p.whole_work_tiles == 0) return split_partial(p);
  return {static_cast<int>(blockIdx.x), 0, p.phase_count, 0, p.whole_each - 1 + Partials(p).work_tiles(p)};
}
// A block's next work tile, whole or in part.
template <class Traits>
__device__ void advance_partial(const ConvParams& p, WorkTile& work, PartialTile& partial) {
  const int more = partial.more - 1, round = work.round + 1;
  if (is_listed<Traits>(p)) {
    partial.left -= (partial.end - partial.first) / p.partial_phases;
    partial.first = 0;
    take_partials(p, partial);
    advance_work<Traits>(p, work);
  } else if (partial.number + p.grid < p.whole_work_tiles) {
    partial.number += p.grid;
    advance_work<Traits>(p, work);
  } else if (partial.number < p.whole_work_tiles) {
    partial = split_partial(p);
    work = work_tile_at(p, partial.number, round);
  } else {
    partial.left -= (partial.end - partial.first) / p.partial_phases;
    partial.first = 0;
    take_partials(p, partial);
    work = work_tile_at(p, ++partial.number, round);
  }
  partial.more = more;
}

// The offset of a work tile's first output, in elements.
__device__ inline std::int64_t result_of(const ConvParams& p, const WorkTile& work) {
  std::int64_t result = work.image * p.to.step.n + work.band * p.results.band;
#pragma unroll
  for (int a = 0; a < 3; ++a) result += work.tile[a] * p.results.tile[a];
  return result;
}

// Neighbouring phases along w that are summed together, `joint` or, at the end of a line, fewer.
template <int joint>
__device__ int joint_phases(const ConvParams& p, int number) {
  return joint == 1 ? 1 : min(joint, p.axis_phases[2] - phase_along(p.phases[number].bits, 2));
}
__device__ inline bool has_taps(const ConvParams& p, int number, int phases) {
  int taps = 0;
  for (; phases > 0; --phases) taps += p.phases[number++].taps;
  return taps > 0;
}
// How often a work tile's box is loaded: once if its chunks are resident, else once for each group of phases that are
// summed together and have taps.
template <int joint>
__device__ int fills_of(const ConvParams& p, int first, int end) {
  if (p.resident) return 1;
  int fills = 0;
  for (int number = first, count = 0; number < end; number += count) {
    count = joint_phases<joint>(p, number);
    fills += has_taps(p, number, count) ? 1 : 0;
  }
  return fills;
}

__device__ inline Phase uniform(const Phase& c) {
  return {uniform(c.taps),    uniform(c.listed), uniform(c.weights), uniform(c.first_tap), uniform(c.along_h),
          uniform(c.along_w), uniform(c.bits),   uniform(c.offset),  uniform(c.line),      uniform(c.plane)};
}

}  // namespace convt::core::cuda::sm90
