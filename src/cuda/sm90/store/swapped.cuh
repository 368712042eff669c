// SPDX-License-Identifier: Apache-2.0
// The staged store with swapped operands: writers store tiles row by row.
#pragma once

#include "cuda/sm90/store/staging.cuh"
#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// The parts of every channel that a writer thread stores. A part is `per` neighbours along w; parts are in the order of
// the output's rows, so that a warp writes as much of a row at once as the tile has. A thread has the addresses of a
// few parts at a time, to save registers.
template <int per>
struct SwappedParts {
  static constexpr int all = 2 * swapped_positions / (warp_threads * per), few = 4;
  // A part's index along each axis, and its offset in a channel's staged line: one byte each, valid for every tile.
  int at[all];
  // The current few parts: the offset from the tile's first output, in elements, and whether the part is inside.
  std::uint32_t to[few];
  bool inside[few];

  __device__ explicit SwappedParts(const ConvParams& p) {
#pragma unroll
    for (int k = 0; k < all; ++k) {
      int rest = (k * warp_threads + static_cast<int>(threadIdx.x) % warp_threads) * per, own[3];
      // A run has fewer positions than rows. The other rows lie past its only plane.
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
    if (all > few) opaque(bits);
    return static_cast<int>(static_cast<unsigned>(bits) >> 24);
  }
  __device__ void find(const ConvParams& p, const WorkTile& work, int first) {
    const std::uint32_t steps[3] = {static_cast<std::uint32_t>(p.to.step.d), static_cast<std::uint32_t>(p.to.step.h),
                                    1};
    int left[3];  // positions left, from the tile's first on
#pragma unroll
    for (int a = 0; a < 3; ++a) left[a] = min(p.axis[a].tile, p.axis[a].size - work.tile[a] * p.axis[a].tile);
#pragma unroll
    for (int k = 0; k < few; ++k) {
      int bits = at[first + k];
      opaque(bits);  // recomputed, to save registers
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
    int m_tile = 0, column = own[2] % 8;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int each = p.m_tile_size[a];
      m_tile = m_tile * (p.axis[a].tile / each) + own[a] / each;
      if (p.group_step[a] != 0) column += own[a] % each / p.group_step[a] * 8;
    }
    return m_tile * swapped_positions + column;
  }
};
static_assert(2 * swapped_positions == 1 << 8);

// Stores the current few parts. Warps take channels in turn.
template <int per, class E>
__device__ void write_parts(const ConvParams& p, const SwappedParts<per>& parts, int first, const E* staged,
                            int channels, E* to) {
  constexpr int few = SwappedParts<per>::few;
  struct alignas(per * sizeof(E)) Neighbours {
    E of[per];
  };
  const int warp = static_cast<int>(threadIdx.x) / warp_threads % group_warps;
  staged += warp * swapped_pitch;
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
        *own = x[k];  // partial sectors: the L2 cache should keep them until the rest comes
    }
    staged += group_warps * swapped_pitch;
    to += group_warps * p.to.step.c;
  }
}

// The writers: store every tile that consumers have staged.
template <class Traits, int per>
__device__ void write_tiles(const ConvParams& p, const Memory& memory) {
  using E = typename Traits::Element;
  const E* const staged = staged_in<E, swapped_channels>(memory.epilogue);
  keep_work(first_work_tile<Traits>(p), memory.work());
  SwappedParts<per> parts(p);
  // Twice the number of tiles left, plus the parity: one register.
  for (int left = 2 * work_tile_count<Traits>(p); left > 1; left = (left ^ 1) - 2) {
    const WorkTile& work = *memory.work();
    E* const to = static_cast<E*>(p.to.data) + result_of(p, work);
    const int channels = min(swapped_channels, p.out_channels - work.band * swapped_channels);
    parts.find(p, work, 0);
    wait(memory.shared.staged_full(), left & 1);
    write_parts(p, parts, 0, staged, channels, to);
#pragma unroll
    for (int first = parts.few; first < parts.all; first += parts.few) {
      parts.find(p, work, first);
      write_parts(p, parts, first, staged, channels, to);
    }
    staging_release(memory.shared);
    keep_next<Traits>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
