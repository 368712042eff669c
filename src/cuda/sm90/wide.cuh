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
#include "cuda/sm90/store.cuh"

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
    if (chain.missing) return;
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
  WideChain{chain, lines}.run(sums);
  E* const to =
      staged + WideSums::channel(0) * wide_pitch + threadIdx.x / group_threads * wide_positions + WideSums::position();
#pragma unroll
  for (int i = 0; i < WideSums::groups; ++i) {
    const float* const x = sums + i * WideSums::each;
    *reinterpret_cast<Pair<E>*>(to + 8 * i) = pair_of<E>(x[0], x[1]);
    *reinterpret_cast<Pair<E>*>(to + 8 * i + 8 * wide_pitch) = pair_of<E>(x[2], x[3]);
  }
}

// What a thread of the writers takes of every channel: parts of `per` neighbours along w, in the order of the output's
// rows, so that a warp writes as much of a row at once as the tile has; a few at a time, as registers are short.
template <int per>
struct WideParts {
  static constexpr int all = 2 * wide_positions / (warp_threads * per), few = 4;
  // The same for every tile, in bytes: places in the tile, along each axis, and in a channel's line of staged results.
  int at[all];
  // Of a few: from the tile's first output on, in elements; whether they are there.
  std::uint32_t to[few];
  bool inside[few];

  __device__ explicit WideParts(const ConvParams& p) {
#pragma unroll
    for (int k = 0; k < all; ++k) {
      int rest = (k * warp_threads + static_cast<int>(threadIdx.x) % warp_threads) * per, own[3];
      // A run has fewer positions than rows: the others are behind its only plane.
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        own[a] = a == 0 ? rest : rest % p.axis[a].tile;
        rest /= p.axis[a].tile;
      }
      const int staged = p.run != 0 ? own[1] * p.axis[2].halo + own[2] : staged_at(p, own);
      at[k] = own[0] | own[1] << 8 | own[2] << 16 | static_cast<int>(static_cast<unsigned>(staged) << 24);
    }
  }
  __device__ int from(int k) const {
    int bits = at[k];
    if (all > few) forget(bits);
    return static_cast<int>(static_cast<unsigned>(bits) >> 24);
  }
  __device__ void find(const ConvParams& p, const Item& item, int first) {
    const std::uint32_t steps[3] = {static_cast<std::uint32_t>(p.to.step.d), static_cast<std::uint32_t>(p.to.step.h),
                                    1};
    int left[3];  // positions, from the tile's first on
#pragma unroll
    for (int a = 0; a < 3; ++a) left[a] = min(p.axis[a].tile, p.axis[a].size - item.tile[a] * p.axis[a].tile);
#pragma unroll
    for (int k = 0; k < few; ++k) {
      int bits = at[first + k];
      forget(bits);  // or what each has is kept: registers are short
      inside[k] = true;
      to[k] = 0;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const int own = bits >> 8 * a & 255;
        inside[k] &= own < left[a];
        to[k] += static_cast<std::uint32_t>(own) * steps[a];
      }
    }
  }

 private:
  __device__ static int staged_at(const ConvParams& p, const int (&own)[3]) {
    int block = 0, column = own[2] % 8;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int each = p.block_size[a];
      block = block * (p.axis[a].tile / each) + own[a] / each;
      if (p.group_step[a] != 0) column += own[a] % each / p.group_step[a] * 8;
    }
    return block * wide_positions + column;
  }
};
static_assert(2 * wide_positions == 1 << 8);

// Those from the first on that were found. Warps take channels in turn.
template <int per, class E>
__device__ void write_parts(const ConvParams& p, const WideParts<per>& parts, int first, const E* staged, int channels,
                            E* to) {
  constexpr int few = WideParts<per>::few;
  struct alignas(per * sizeof(E)) Neighbours {
    E of[per];
  };
  const int warp = static_cast<int>(threadIdx.x) / warp_threads % group_warps;
  staged += warp * wide_pitch;
  to += warp * p.to.step.c;
#pragma unroll 1
  for (int left = channels - warp; left > 0; left -= group_warps) {
    Neighbours x[few];
#pragma unroll
    for (int k = 0; k < few; ++k) x[k] = *reinterpret_cast<const Neighbours*>(staged + parts.from(first + k));
#pragma unroll
    for (int k = 0; k < few; ++k) {
      if (!parts.inside[k]) continue;
      auto* const own = reinterpret_cast<Neighbours*>(to + parts.to[k]);
      if constexpr (per * sizeof(E) >= sizeof(float))
        store_result(own, x[k]);
      else
        *own = x[k];  // odd ones, of which the L2 cache must keep what it has of a sector until the others come
    }
    staged += group_warps * wide_pitch;
    to += group_warps * p.to.step.c;
  }
}

// By the writers: every tile of the block, when consumers have staged it.
template <class E, int per>
__device__ void write_tiles(const ConvParams& p, const Memory& memory) {
  const E* const staged = staged_in<E, wide_channels>(memory.behind);
  keep_item(item_at(p, blockIdx.x), memory.item());
  WideParts<per> parts(p);
  // Twice the tiles that are left, and the parity of those before: one register.
  for (int left = 2 * items_of<true>(p); left > 1; left = (left ^ 1) - 2) {
    const Item& item = *memory.item();
    E* const to = static_cast<E*>(p.to.data) + result_of(p, item);
    const int channels = min(wide_channels, p.out_channels - item.band * wide_channels);
    parts.find(p, item, 0);
    wait(memory.shared.staged_full(), left & 1);
    write_parts(p, parts, 0, staged, channels, to);
#pragma unroll
    for (int first = parts.few; first < parts.all; first += parts.few) {
      parts.find(p, item, first);
      write_parts(p, parts, first, staged, channels, to);
    }
    release_staged(memory.shared);
    keep_next<false, true>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
