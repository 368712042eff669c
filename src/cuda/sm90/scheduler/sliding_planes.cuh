// SPDX-License-Identifier: Apache-2.0
// The scheduler of sliding planes: which planes of which tiles a block computes.
#pragma once

#include "cuda/sm90/scheduler/work_tile.cuh"

namespace convt::core::cuda::sm90 {

// A range of output planes of a tile. to_input: from an output plane to the input plane that completes it.
struct PlaneRange {
  int tile, first, end, to_input, round;

  __device__ WorkTile work(const ConvParams& p) const { return work_tile_at(p, tile, round); }
};

// Where a block's part begins. Tiles that do not fill a round are split by planes, evenly over all blocks.
struct PlaneOfTile {
  int tile, plane;

  __device__ PlaneOfTile(const ConvParams& p, int tiles, int block) {
    const std::int64_t at = static_cast<std::int64_t>(tiles) * p.axis[0].size * block / static_cast<int>(gridDim.x);
    tile = uniform(static_cast<int>(at / p.axis[0].size));
    plane = uniform(static_cast<int>(at % p.axis[0].size));
  }
};
// Calls f(range) for the block's whole tiles, then for its part of the tiles that are left. Blocks take neighbouring
// whole tiles at the same time, as these share inputs.
template <class Traits, class F>
__device__ void for_each_plane_range(const ConvParams& p, F&& f) {
#pragma unroll 1
  for (int i = 0;; ++i) {
    const bool listed = is_listed<Traits>(p);
    int tiles = listed ? block_list(p)[0] : p.work_tiles;
    opaque(tiles);  // recomputed, to save registers
    const int block = blockIdx.x, blocks = gridDim.x, rounds = uniform(tiles / blocks), whole = rounds * blocks;
    const PlaneOfTile begin(p, tiles - whole, block), end(p, tiles - whole, block + 1);
    const int part = i - rounds, last = end.tile - begin.tile;
    if (part > last) return;
    const int first = part == 0 ? begin.plane : 0, after = part == last ? end.plane : p.axis[0].size;
    const int number = part < 0 ? block + i * blocks : whole + begin.tile + part;
    if (first < after)
      f(PlaneRange{listed ? uniform(listed_number(p, i)) : number, first, after, p.axis[0].first + joined_taps - 1, i});
  }
}

// The input planes of a range that are inside the image.
struct Inputs {
  int first, count;

  __device__ Inputs(const ConvAxis& axis, const PlaneRange& range)
      : first(max(range.first - (joined_taps - 1) + range.to_input, axis.lowest)),
        count(min(range.end + range.to_input, axis.lowest + axis.inputs) - first) {}
};

}  // namespace convt::core::cuda::sm90
