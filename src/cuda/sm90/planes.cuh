// SPDX-License-Identifier: Apache-2.0
// Planes of a tile, one after the other: where a thread finds its pixels differs by no more than the plane's offset.
#pragma once

#include "cuda/sm90/halo.cuh"
#include "cuda/sm90/launchers.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr Team march_team = team_of(Way::march);
inline constexpr int march_warps = march_team.producers * group_warps;  // that fill planes
inline constexpr int march_fillers = march_warps * warp_threads;

__device__ inline int share_rows(const ConvParams& p) { return (2 * p.halo_rows + march_fillers - 1) / march_fillers; }
// Whether threads can have shares, of so many rows at most: some pixel is inside.
__device__ inline bool can_share(const ConvParams& p, int most) {
  return !p.units && share_rows(p) <= most && p.axis[1].inputs > 0 && p.axis[2].inputs > 0;
}

// What a thread fills of every plane of a tile: rows, each with one half of a chunk's channels, as whole rows would be
// too few to go round evenly. Found once for all planes.
template <class E, int rows>
struct Share {
  const E* from[rows];  // in plane 0, at channel 0; a pixel nearby where the row's is outside the image
  int place[rows];      // of the row's first unit in a slot, and in bits that are 0 there, for registers are short:
  static constexpr int inside = 1, second = 2, absent = 4;  // the image; half; there is no row

  __device__ Share(const ConvParams& p, const Corner& corner) {
    int thread = static_cast<int>(threadIdx.x) - march_team.consumers * group_threads;
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
        int inputs = axis.inputs;
        forget(inputs);  // as well
        from[i] += (axis.lowest + min(max(x - axis.lowest, 0), inputs - 1)) * axis.step;
      }
      place[i] |= (is_there ? inside : 0) | (half >= p.halo_rows ? second : 0) | (half >= 2 * p.halo_rows ? absent : 0);
    }
  }
};

// What a thread loads at once: 8 channels of each row of its share, all without conditions.
template <class E, int rows>
using Group = E[rows][group_channels];

// A group of all those that planes have, one after the other.
struct GroupPlace {
  int first = 0, group = 0;  // the chunk's first channel; of each of its halves

  __device__ bool in_last(const ConvParams& p) const { return first + 2 * p.groups * group_channels >= p.in_channels; }
  __device__ int groups(const ConvParams& p) const { return in_last(p) ? p.last_groups : p.groups; }
  // Whether all channels of the chunk are there.
  __device__ bool full(const ConvParams& p) const { return first + 2 * groups(p) * group_channels <= p.in_channels; }
  __device__ int channel(const ConvParams& p, bool second) const {  // of the chunk
    return ((second ? groups(p) : 0) + group) * group_channels;
  }
  __device__ bool ends(const ConvParams& p) const { return group + 1 == groups(p); }  // the chunk
  // True where a plane ends.
  __device__ bool next(const ConvParams& p) {
    if (!ends(p)) {
      ++group;
      return false;
    }
    const bool over = in_last(p);
    first = over ? 0 : first + 2 * p.groups * group_channels;
    group = 0;
    return over;
  }
};

// `plane`: its offset, in elements.
template <bool full, class E, int rows>
__device__ void load_group(const ConvParams& p, const Share<E, rows>& share, const GroupPlace& at, std::int64_t plane,
                           Group<E, rows>& x) {
  const std::int64_t channel_bytes = p.channel_step * static_cast<std::int64_t>(sizeof(E));
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    int place = share.place[i];
    forget(place);  // or what its bits tell is kept: registers are short
    const int channel = at.first + at.channel(p, (place & Share<E, rows>::second) != 0);
    const E* from = share.from[i] + (plane + (full ? channel : min(channel, p.in_channels - 1)) * p.channel_step);
    int left = p.in_channels - channel;
    if (!full) forget(left);  // or all comparisons are kept
#pragma unroll
    for (int c = 0; c < group_channels; ++c) x[i][c] = load_next(from, full || c + 1 < left ? channel_bytes : 0);
  }
}
template <bool full, class E, int rows>
__device__ void store_group(const ConvParams& p, const Share<E, rows>& share, const GroupPlace& at, Group<E, rows>& x,
                            unsigned char* slot) {
  constexpr int size = sizeof(E), each = 16 / size;
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    int place = share.place[i];
    forget(place);
    const unsigned mask = (place & Share<E, rows>::inside) != 0 ? ~0U : 0U;
    const int channel = at.channel(p, (place & Share<E, rows>::second) != 0), to = (place & -16) ^ channel * size;
    int left = p.in_channels - at.first - channel;
    if (!full) forget(left);
#pragma unroll
    for (int c = 0; c < group_channels; c += each) {
#pragma unroll
      for (int k = c; k < c + each; ++k)
        if (!full && k >= left) x[i][k] = E{};
      const uint4 unit = rounded_vector(x[i] + c);
      if (i + 1 < rows ||
          (place & Share<E, rows>::absent) == 0)  // the last one; of tiny tiles others too, which store what is there
        *reinterpret_cast<uint4*>(slot + (to ^ c * size)) = {unit.x & mask, unit.y & mask, unit.z & mask,
                                                             unit.w & mask};
    }
  }
}

// Neighbouring planes of a tile, each chunk to the ring's next slot. The next group is under way while one is stored.
template <class E, int rows>
class PlaneFiller {
 public:
  __device__ PlaneFiller(const ConvParams& p, const Shared& shared, const Share<E, rows>& share, unsigned char* slots,
                         Ring& slot)
      : p_(p), shared_(shared), share_(share), slots_(slots), slot_(slot) {}

  __device__ void fill(int first, int planes) {
    plane_ = first * p_.axis[0].step;
    Group<E, rows> even, odd;
    forget(loaded_.first);  // or what follows the first group is found for all tiles, and kept
    int left = planes * p_.plane_groups;
    load(even);
#pragma unroll 1
    while (true) {
      if (left > 1) load(odd);
      store(even);
      if (left > 2) load(even);
      if (left > 1) store(odd);
      left -= 2;
      if (left <= 0) return;
    }
  }

 private:
  __device__ void load(Group<E, rows>& x) {
    if (loaded_.full(p_))
      load_group<true>(p_, share_, loaded_, plane_, x);
    else
      load_group<false>(p_, share_, loaded_, plane_, x);
    if (loaded_.next(p_)) plane_ += p_.axis[0].step;
  }
  __device__ void store(Group<E, rows>& x) {
    if (stored_.group == 0) wait(shared_.halo_empty(slot_.place), slot_.parity ^ 1);
    unsigned char* const to = slots_ + slot_.place * p_.slot_bytes;
    if (stored_.full(p_))
      store_group<true>(p_, share_, stored_, x, to);
    else
      store_group<false>(p_, share_, stored_, x, to);
    if (stored_.ends(p_)) {
      fence_async();
      __syncwarp();
      int lane = threadIdx.x % warp_threads;
      forget(lane);  // or a predicate is kept
      if (lane == 0) arrive(shared_.halo_full(slot_.place));
      slot_.next();
    }
    stored_.next(p_);
  }

  const ConvParams& p_;
  const Shared& shared_;
  const Share<E, rows>& share_;
  unsigned char* slots_;
  Ring& slot_;
  GroupPlace loaded_, stored_;  // the next ones to be
  std::int64_t plane_ = 0;      // that is loaded, in elements
};

}  // namespace convt::core::cuda::sm90
