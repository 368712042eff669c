// SPDX-License-Identifier: Apache-2.0
// Planes of a tile, one after the other: where a thread finds its pixels differs by no more than the plane's offset.
#pragma once

#include "cuda/sm90/halo.cuh"

namespace convt::core::cuda::sm90 {

inline constexpr int march_warps = producers * group_threads / warp_threads;  // that fill planes
inline constexpr int march_fillers = march_warps * warp_threads;

// Of each thread, at most: those of a share are unrolled.
inline constexpr int most_share_rows = 3;
__device__ inline int share_rows(const ConvParams& p) { return (2 * p.halo_rows + march_fillers - 1) / march_fillers; }
// Whether threads can have shares: there are not too many rows, and some pixel is inside.
__device__ inline bool can_share(const ConvParams& p) {
  return !p.units && share_rows(p) <= most_share_rows && p.axis[1].inputs > 0 && p.axis[2].inputs > 0;
}

// What a thread fills of every plane of a tile: rows, each with one half of a chunk's channels, as whole rows would be
// too few to go round evenly. Found once for all planes.
template <class E, int rows>
struct Share {
  const E* from[rows];  // in plane 0, at channel 0; a pixel nearby where the row's is outside the image
  int place[rows];      // of the row's first unit in a slot, and in bits that are 0 there, for registers are short:
  static constexpr int inside = 1, second = 2, absent = 4;  // the image; half; there is no row

  __device__ Share(const ConvParams& p, const Corner& corner) {
    int thread = static_cast<int>(threadIdx.x) - consumers * group_threads;
    forget(thread);  // or what is found for all tiles is kept: registers are short
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int half = thread + i * march_fillers, row = half % p.halo_rows, h = row / p.axis[2].halo;
      const int at[3] = {0, h, row - h * p.axis[2].halo};
      from[i] = static_cast<const E*>(p.input) + corner.image * p.image_step;
      place[i] = row * p.row_bytes + place_in_row(row, 0, p.row_bytes) * 16;
      bool is_there = true;
#pragma unroll
      for (int a = 1; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int x = corner.at[a] + at[a];
        is_there &= is_inside(axis, x);
        from[i] += min(max(x, axis.lowest), axis.lowest + axis.inputs - 1) * axis.step;
      }
      place[i] |= (is_there ? inside : 0) | (half >= p.halo_rows ? second : 0) | (half >= 2 * p.halo_rows ? absent : 0);
    }
  }
};

// One chunk of channels of a plane, `groups` of 8 for each half. A thread has all loads of a group under way at once;
// `full` where all channels are there, else so many.
template <bool full, class E, int rows>
__device__ void fill_share(const ConvParams& p, const Share<E, rows>& share, std::int64_t first, int there, int groups,
                           unsigned char* slot) {
  constexpr int size = sizeof(E), each = 16 / size, at_once = 8;
  const std::int64_t channel_bytes = p.channel_step * size;
  const E* from[rows];
  int channel[rows];
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    channel[i] = (share.place[i] & Share<E, rows>::second) != 0 ? groups * at_once : 0;
    from[i] = share.from[i] + (first + (full ? channel[i] : min(channel[i], there - 1)) * p.channel_step);
  }
#pragma unroll 1
  for (int g = 0; g < groups; ++g) {
    E x[rows][at_once];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      int left = there - channel[i];
      if (!full) forget(left);  // or all comparisons are kept
#pragma unroll
      for (int c = 0; c < at_once; ++c) x[i][c] = load_next(from[i], full || c + 1 < left ? channel_bytes : 0);
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const unsigned mask = (share.place[i] & Share<E, rows>::inside) != 0 ? ~0U : 0U;
      const int to = (share.place[i] & -16) ^ channel[i] * size;
      int left = there - channel[i];
      if (!full) forget(left);
#pragma unroll
      for (int c = 0; c < at_once; c += each) {
#pragma unroll
        for (int k = c; k < c + each; ++k)
          if (!full && k >= left) x[i][k] = E{};
        const uint4 unit = rounded_vector(x[i] + c);
        if (i + 1 < rows || (share.place[i] & Share<E, rows>::absent) == 0)  // only the last one may be
          *reinterpret_cast<uint4*>(slot + (to ^ c * size)) = {unit.x & mask, unit.y & mask, unit.z & mask,
                                                               unit.w & mask};
      }
      channel[i] += at_once;
    }
  }
}

// All chunks of a plane, each to the ring's next slot.
template <class E, int rows>
__device__ void fill_plane(const ConvParams& p, const Shared& shared, const Share<E, rows>& share, int z,
                           unsigned char* slots, Ring& slot) {
  constexpr int step_groups = step_bytes / static_cast<int>(sizeof(E)) / 8;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int steps = chunk + 1 == p.chunks ? p.last_steps : p.row_bytes / step_bytes;
    const int groups = (steps * step_groups + 1) / 2, first = chunk * (p.row_bytes / static_cast<int>(sizeof(E)));
    const int there = p.in_channels - first;
    const std::int64_t from = z * p.axis[0].step + first * p.channel_step;
    wait(shared.halo_empty(slot.place), slot.parity ^ 1);
    unsigned char* const to = slots + slot.place * p.slot_bytes;
    if (2 * groups * 8 <= there)
      fill_share<true>(p, share, from, there, groups, to);
    else
      fill_share<false>(p, share, from, there, groups, to);
    fence_async();
    __syncwarp();
    int lane = threadIdx.x % warp_threads;
    forget(lane);  // or a predicate is kept
    if (lane == 0) arrive(shared.halo_full(slot.place));
    slot.next();
  }
}

}  // namespace convt::core::cuda::sm90
