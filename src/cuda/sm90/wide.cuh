// SPDX-License-Identifier: Apache-2.0
// Sums whose columns are positions and whose rows are output channels, for chains without a norm, which would have to
// cross warps.
//
// A matrix instruction with 128 columns reads shared memory three quarters as often as two with 64 do, and those leave
// no time between their reads for anybody else. Results are staged in shared memory; a warpgroup of writers takes them
// to the output, row by row, while the next tile is multiplied.
#pragma once

#include "cuda/sm90/gelu.cuh"
#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/staged.cuh"

namespace convt::core::cuda::sm90 {

// A thread has two output channels of a block, and of each two neighbouring positions of every group of 8; in sums they
// are [group][channel][position].
struct WideSums {
  static constexpr int groups = wide_positions / 8, each = 4;
  __device__ static int channel(int half) {
    return threadIdx.x % group_threads / warp_threads * 16 + threadIdx.x % warp_threads / 4 + half * 8;
  }
  __device__ static int position() { return threadIdx.x % 4 * 2; }  // of a group, the first one
};

// A short chain without a norm, part by part: a question for each group of 8 would take longer than most parts do.
struct WideChain {
  static constexpr int count = wide_positions / 2;
  const ShortChain& chain;
  const Lines<wide_channels>& lines;

  __device__ void run(float (&x)[count]) const {
    apply_line(ShortChain::before_norm, x);
    apply_line(ShortChain::behind_norm, x);
    if (chain.activation == ShortChain::gelu) {
#pragma unroll
      for (int i = 0; i < count; i += WideSums::each)
        apply_gelu<ShortChain::gelu_degree, WideSums::each>(chain.q, x + i);
    } else if (chain.activation == ShortChain::relu) {
#pragma unroll
      for (float& v : x) v = maximum(v, 0.0f);
    }
    apply_line(ShortChain::last, x);
  }

 private:
  __device__ void apply_line(ShortChain::Place place, float (&x)[count]) const {
    if (!chain.lines[place].there) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 line = lines.data[place * wide_channels + WideSums::channel(half)];
#pragma unroll
      for (int i = 0; i < count; i += WideSums::each)
#pragma unroll
        for (int k = 2 * half; k < 2 * half + 2; ++k) x[i + k] = fmaf(line.x, x[i + k], line.y);
    }
  }
};

// A warpgroup's block, through its chain, to [channel][block][column].
template <class E>
__device__ void stage_block(const ShortChain& chain, const Lines<wide_channels>& lines,
                            float (&sums)[wide_positions / 2], E* staged) {
  if (!chain.missing) WideChain{chain, lines}.run(sums);
  E* const to =
      staged + WideSums::channel(0) * wide_pitch + threadIdx.x / group_threads * wide_positions + WideSums::position();
#pragma unroll
  for (int i = 0; i < WideSums::groups; ++i) {
    const float* const x = sums + i * WideSums::each;
    *reinterpret_cast<Pair<E>*>(to + 8 * i) = pair_of<E>(x[0], x[1]);
    *reinterpret_cast<Pair<E>*>(to + 8 * i + 8 * wide_pitch) = pair_of<E>(x[2], x[3]);
  }
}

// Neighbours along w, `per` of them, in the order of the output's rows, so that a warp writes as much of a row at once
// as the tile has. All but whether they are inside is the same for every tile.
template <int per>
struct WideParts : WriterParts {
  int at[count];  // the tile's positions, 10 bits for each axis

  __device__ WideParts(const ConvParams& p, int first) {
#pragma unroll
    for (int k = 0; k < count; ++k) {
      int rest = first + (k * warp_threads + static_cast<int>(threadIdx.x) % warp_threads) * per;
      int block = 0, column = rest % p.axis[2].tile % 8;
      to[k] = at[k] = 0;
      int own[3];
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        own[a] = rest % p.axis[a].tile;
        rest /= p.axis[a].tile;
        at[k] |= own[a] << 10 * a;
      }
      const std::int64_t steps[3] = {p.to.step.d, p.to.step.h, p.to.step.w};
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const int each = p.block_size[a];
        to[k] += own[a] * steps[a];
        block = block * (p.axis[a].tile / each) + own[a] / each;
        if (p.group_step[a] != 0) column += own[a] % each / p.group_step[a] * 8;
      }
      from[k] = block * wide_positions + column;
    }
  }
  __device__ void find_inside(const ConvParams& p, const Item& item) {
    int left[3];  // positions, from the tile's first on
#pragma unroll
    for (int a = 0; a < 3; ++a) left[a] = p.axis[a].size - item.tile[a] * p.axis[a].tile;
#pragma unroll
    for (int k = 0; k < count; ++k) {
      inside[k] = true;
#pragma unroll
      for (int a = 0; a < 3; ++a) inside[k] &= (at[k] >> 10 * a & 1023) < left[a];
    }
  }
};
static_assert(2 * wide_positions < 1024);

// By the writers: every tile of the block, when consumers have staged it.
template <class E, int per>
__device__ void write_tiles(const ConvParams& p, const Shared& shared, const E* staged) {
  constexpr int all = 2 * wide_positions, each = WriterParts::count * warp_threads * per;
  Item item = item_at(p, blockIdx.x);
  WideParts<per> parts(p, 0);
  // Twice the tiles that are left, and the parity of those before: one register.
  for (int left = 2 * items_of<true>(p); left > 1; left = (left ^ 1) - 2, step_on<true>(p, item)) {
    E* const to = static_cast<E*>(p.to.data) + result_of(p, item);
    const int channels = min(wide_channels, p.out_channels - item.band * wide_channels);
    if (each == all) parts.find_inside(p, item);
    wait(shared.staged_full(), left & 1);
#pragma unroll 1
    for (int first = 0; first < all; first += each) {
      if (each < all) {  // found again: registers are short
        parts = WideParts<per>(p, first);
        parts.find_inside(p, item);
      }
      write_parts<per>(parts, staged, wide_pitch, channels, to, p.to.step.c);
    }
    release_staged(shared);
  }
}

}  // namespace convt::core::cuda::sm90
