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
#include "cuda/sm90/rings.cuh"
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

// A line of a short chain, of a thread's two channels.
struct WideLine {
  bool there;
  float2 of[2];

  template <int n>
  __device__ WideLine(const ShortChain& chain, const Lines<n>& lines, ShortChain::Place place)
      : there(chain.lines[place].there) {
#pragma unroll
    for (int half = 0; half < 2; ++half) of[half] = lines.data[place * n + WideSums::channel(half)];
  }
  __device__ void apply(float (&x)[WideSums::each]) const {
    if (!there) return;
#pragma unroll
    for (int i = 0; i < WideSums::each; ++i) x[i] = fmaf(of[i / 2].x, x[i], of[i / 2].y);
  }
};

// A short chain without a norm.
struct WideChain {
  WideLine first, second, last;
  ShortChain::Activation activation;
  const float* q;

  template <int n>
  __device__ WideChain(const ShortChain& chain, const Lines<n>& lines)
      : first(chain, lines, ShortChain::before_norm),
        second(chain, lines, ShortChain::behind_norm),
        last(chain, lines, ShortChain::last),
        activation(chain.activation),
        q(chain.q) {}

  __device__ void run(float (&x)[WideSums::each]) const {
    first.apply(x);
    second.apply(x);
    if (activation == ShortChain::gelu) apply_gelu<ShortChain::gelu_degree, WideSums::each>(q, x);
    if (activation == ShortChain::relu) {
#pragma unroll
      for (float& v : x) v = maximum(v, 0.0f);
    }
    last.apply(x);
  }
};

// The results of a tile, [channel][block][column].
template <class E>
__device__ E* staged_in(unsigned char* memory) {
  return reinterpret_cast<E*>(memory + lines_bytes(wide_channels));
}

// A warpgroup's block, through its chain.
template <class E>
__device__ void stage_block(const ShortChain& chain, const Lines<wide_channels>& lines,
                            const float (&sums)[wide_positions / 2], E* staged) {
  const WideChain steps(chain, lines);
  E* const to = staged + WideSums::channel(0) * staged_pitch + threadIdx.x / group_threads * wide_positions +
                WideSums::position();
#pragma unroll
  for (int i = 0; i < WideSums::groups; ++i) {
    float x[WideSums::each];
#pragma unroll
    for (int k = 0; k < WideSums::each; ++k) x[k] = sums[i * WideSums::each + k];
    steps.run(x);
    put_pair(to + 8 * i, x[0], x[1]);
    put_pair(to + 8 * i + 8 * staged_pitch, x[2], x[3]);
  }
}

// What a thread of the writers has of every channel: results that are `per` neighbours along w, in the order of the
// output's rows, so that a warp writes as much of a row at once as the tile has.
template <class E, int per>
class StagedParts {
 public:
  static constexpr int parts = 4, positions = parts * warp_threads * per;

  // Of the tile's positions from `first` on.
  __device__ StagedParts(const ConvParams& p, int first) {
#pragma unroll
    for (int k = 0; k < parts; ++k) {
      int at[3], rest = first + (k * warp_threads + static_cast<int>(threadIdx.x) % warp_threads) * per;
      to_[k] = 0;
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        at[a] = rest % p.axis[a].tile;
        rest /= p.axis[a].tile;
      }
      to_[k] = at[0] * p.to.step.d + at[1] * p.to.step.h + at[2] * p.to.step.w;
      at_[k] = at[0] << 20 | at[1] << 10 | at[2];
      from_[k] = staged_place(p, at);
    }
  }

  // A tile's results, to where its first position's are; channels of one warp.
  __device__ void write(const ConvParams& p, const Item& item, const E* staged) const {
    const int room[3] = {p.axis[0].size - item.tile[0] * p.axis[0].tile, p.axis[1].size - item.tile[1] * p.axis[1].tile,
                         p.axis[2].size - item.tile[2] * p.axis[2].tile};
    bool inside[parts];
#pragma unroll
    for (int k = 0; k < parts; ++k)
      inside[k] = (at_[k] >> 20) < room[0] && (at_[k] >> 10 & 1023) < room[1] && (at_[k] & 1023) < room[2];
    const int channels = min(wide_channels, p.out_channels - item.band * wide_channels);
    const int warp = static_cast<int>(threadIdx.x) / warp_threads % group_warps;
    E* to = static_cast<E*>(p.to.data) + item.image * p.to.step.n +
            (static_cast<std::int64_t>(item.band) * wide_channels + warp) * p.to.step.c;
#pragma unroll
    for (int a = 0; a < 3; ++a) to += item.tile[a] * p.results.tile[a];
#pragma unroll 2
    for (int c = warp; c < channels; c += group_warps) {
      Part x[parts];
#pragma unroll
      for (int k = 0; k < parts; ++k) x[k] = *reinterpret_cast<const Part*>(staged + c * staged_pitch + from_[k]);
#pragma unroll
      for (int k = 0; k < parts; ++k)
        if (inside[k]) *reinterpret_cast<Part*>(to + to_[k]) = x[k];
      to += group_warps * p.to.step.c;
    }
  }

 private:
  struct alignas(per * sizeof(E)) Part {
    E of[per];
  };

  // Where stage_block() puts a position of the tile.
  __device__ static int staged_place(const ConvParams& p, const int (&at)[3]) {
    int block = 0, column = at[2] % 8;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int each = p.block_size[a];
      block = block * (p.axis[a].tile / each) + at[a] / each;
      if (p.group_step[a] != 0) column += at[a] % each / p.group_step[a] * 8;
    }
    return block * wide_positions + column;
  }

  std::int64_t to_[parts];
  int at_[parts], from_[parts];
};

// By the warpgroup of writers: every tile of the block, when consumers have staged it.
template <class E, int per>
__device__ void write_parts(const ConvParams& p, const Shared& shared, const E* staged) {
  Item item = item_at(p, blockIdx.x);
  int parity = 0;
  for (int i = blockIdx.x; i < p.items; i += gridDim.x, go_on(p, item), parity ^= 1) {
    wait(shared.staged_full(), parity);
#pragma unroll 1
    for (int first = 0; first < staged_positions; first += StagedParts<E, per>::positions)
      StagedParts<E, per>(p, first).write(p, item, staged);
    __syncwarp();
    if (threadIdx.x % warp_threads == 0) arrive(shared.staged_empty());
  }
}
template <class E>
__device__ void write_staged(const ConvParams& p, const Shared& shared, const E* staged) {
  p.paired ? write_parts<E, 2>(p, shared, staged) : write_parts<E, 1>(p, shared, staged);
}

}  // namespace convt::core::cuda::sm90
