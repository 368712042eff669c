// SPDX-License-Identifier: Apache-2.0
// Planes of a tile, one after the other: where a thread finds its pixels differs by no more than the plane's offset.
#pragma once

#include "cuda/sm90/halo.cuh"
#include "cuda/sm90/launchers.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr Team march_team = team_of(Way::march);
inline constexpr int march_warps = march_team.producers * group_warps;  // that fill planes
inline constexpr int march_fillers = march_warps * warp_threads;

// Whether threads can have shares of so many parts at most: some pixel is inside. Lines of pairs may have one more than
// half their pixels.
template <int pixels, int parts>
__device__ bool can_share(const ConvParams& p) {
  const int all = pixels == 1 ? p.halo_rows : p.axis[1].halo * (p.axis[2].halo / pixels + 1);
  return !p.units && 2 * all <= parts * march_fillers && p.axis[1].inputs > 0 && p.axis[2].inputs > 0;
}

// What a thread fills of every plane of a tile: parts of lines, each with one half of a chunk's channels, as whole ones
// would be too few to go round evenly. Found once for all planes.
template <class E, int pixels, int parts>
struct Share {
  const E* from[parts];  // in plane 0, at channel 0; a pixel nearby where the part's is outside the image
  RowPlaces<pixels> rows[parts];

  __device__ Share(const ConvParams& p, const Corner& corner) {
    int thread = static_cast<int>(threadIdx.x) - march_team.consumers * group_threads;
    forget(thread);  // or what is found for all tiles is kept: registers are short
    HaloLines<E, pixels> lines(p, corner);
    // A warp has parts of one line alone, where that goes round: its loads meet fewer lines of the cache.
    const int whole = (lines.parts + warp_threads - 1) / warp_threads * warp_threads;
    if (pixels > 1 && 2 * p.axis[1].halo * whole <= parts * march_fillers) lines.parts = whole;
    const int all = lines.all(p);
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int half = thread + i * march_fillers;
      const HaloPart part(lines, half % all);
      const int at[3] = {0, part.line, part.at};
      from[i] = static_cast<const E*>(p.input) + corner.image * p.image_step;
      bool is_there = true;
#pragma unroll
      for (int a = 1; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int x = corner.at[a] + at[a];
        is_there &= is_inside(axis, x);
        int inputs = axis.inputs;
        forget(inputs);  // as well
        from[i] += (axis.lowest + min(max(x - axis.lowest, 0), inputs - (a == 2 ? pixels : 1))) * axis.step;
      }
      using R = RowPlaces<pixels>;
      rows[i] =
          R(p, part, p.row_bytes,
            (is_there ? R::inside : 0) | (half >= all ? R::second : 0) | (half >= 2 * all ? R::absent | R::none : 0));
    }
  }
};

// What a thread loads at once: 8 channels of each part of its share, all without conditions.
template <class E, int pixels, int parts>
using Group = Loaded<E, pixels>[parts][group_channels];

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
template <bool full, class E, int pixels, int parts>
__device__ void load_group(const ConvParams& p, const Share<E, pixels, parts>& share, const GroupPlace& at,
                           std::int64_t plane, Group<E, pixels, parts>& x) {
  using R = RowPlaces<pixels>;
  std::int64_t step = p.channel_step;
  forget(step);  // or both are kept: registers are short
  const std::int64_t channel_bytes = step * static_cast<std::int64_t>(sizeof(E));
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const int place = share.rows[i].at(0);
    if (i + 1 == parts && (place & R::none) != 0) continue;  // in whole warps
    const int channel = at.first + at.channel(p, (place & R::second) != 0);
    const E* const first = share.from[i] + (plane + (full ? channel : min(channel, p.in_channels - 1)) * step);
    const auto* from = reinterpret_cast<const Loaded<E, pixels>*>(first);
    int left = p.in_channels - channel;
    if (!full) forget(left);  // or all comparisons are kept
#pragma unroll
    for (int c = 0; c < group_channels; ++c) x[i][c] = load_next(from, full || c + 1 < left ? channel_bytes : 0);
  }
}
template <bool full, class E, int pixels, int parts>
__device__ void store_group(const ConvParams& p, const Share<E, pixels, parts>& share, const GroupPlace& at,
                            Group<E, pixels, parts>& x, unsigned char* slot, RangeGuard<E>& guard) {
  using R = RowPlaces<pixels>;
  constexpr int size = operand_bytes<E>, each = 16 / size;
  const int turned = first_pixel<pixels>();
  const auto is_loaded = [](int bits) { return (bits & (R::inside | R::none)) == R::inside; };
  bool small = false;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const int bits = share.rows[i].at(0);
    int left = p.in_channels - at.first - at.channel(p, (bits & R::second) != 0);
    if (!full) forget(left);
#pragma unroll
    for (int c = 0; c < group_channels; ++c)
      if (!full && c >= left) x[i][c] = {};
    small |= guard.has_small(x[i], group_channels, is_loaded(bits));
  }
  if (guard.is_asked(small)) {
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int bits = share.rows[i].at(0);
      guard.judge_halves(p, x[i], is_loaded(bits), (bits & R::second) != 0);
    }
  }
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const int bits = share.rows[i].at(0);
    const unsigned mask = (bits & R::inside) != 0 ? ~0U : 0U;
    const int channel = at.channel(p, (bits & R::second) != 0);
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const int place = share.rows[i].at(k), to = (place & -16) ^ channel * size;
#pragma unroll
      for (int c = 0; c < group_channels; c += each) {
        const uint4 unit = unit_of(x[i] + c, k ^ turned);
        // Of single pixels the last one; of tiny tiles others too, which store what is there.
        if ((pixels == 1 && i + 1 < parts) || (place & R::absent) == 0) {
          guard.add(unit);
          *reinterpret_cast<uint4*>(slot + (to ^ c * size)) = {unit.x & mask, unit.y & mask, unit.z & mask,
                                                               unit.w & mask};
        }
      }
    }
  }
  guard.end(p);
}

// Neighbouring planes of a tile, each chunk to the ring's next slot. All groups that there are registers for are loaded
// before the first is stored: a wait for a load is one for all that are under way, as the compiler counts them
// together.
template <class E, int pixels, int parts>
class PlaneFiller {
  static constexpr int groups = 4 / parts;
  using X = Group<E, pixels, parts>;

 public:
  __device__ PlaneFiller(const ConvParams& p, const Shared& shared, const Share<E, pixels, parts>& share,
                         unsigned char* slots, Ring& slot, RangeGuard<E>& guard)
      : p_(p), shared_(shared), share_(share), slots_(slots), slot_(slot), guard_(guard) {}

  __device__ void fill(int first, int planes) {
    plane_ = first * p_.axis[0].step;
    forget(loaded_.first);  // or what follows the first group is found for all tiles, and kept
#pragma unroll 1
    for (int left = planes * p_.plane_groups; left > 0; left -= groups) {
      X x[groups];
#pragma unroll
      for (int k = 0; k < groups; ++k)
        if (k == 0 || left > k) load(x[k]);
#pragma unroll
      for (int k = 0; k < groups; ++k)
        if (k == 0 || left > k) store(x[k]);
    }
  }

 private:
  __device__ void load(X& x) {
    if (loaded_.full(p_))
      load_group<true>(p_, share_, loaded_, plane_, x);
    else
      load_group<false>(p_, share_, loaded_, plane_, x);
    if (loaded_.next(p_)) plane_ += p_.axis[0].step;
  }
  __device__ void store(X& x) {
    if (stored_.group == 0) wait(shared_.halo_empty(slot_.place), slot_.parity ^ 1);
    unsigned char* const to = slots_ + slot_.place * p_.slot_bytes;
    if (stored_.full(p_))
      store_group<true>(p_, share_, stored_, x, to, guard_);
    else
      store_group<false>(p_, share_, stored_, x, to, guard_);
    if (stored_.ends(p_)) {
      // For all: threads have the same rows of every plane, so that nobody else overwrites what they put there.
      fence_async();
      __syncwarp();
      int lane = threadIdx.x % warp_threads;
      forget(lane);  // or a predicate is kept
      if (lane == 0) arrive_for(shared_.halo_full(slot_.place), warp_threads);
      slot_.next();
    }
    stored_.next(p_);
  }

  const ConvParams& p_;
  const Shared& shared_;
  const Share<E, pixels, parts>& share_;
  unsigned char* slots_;
  Ring& slot_;
  RangeGuard<E>& guard_;
  GroupPlace loaded_, stored_;  // the next ones to be
  std::int64_t plane_ = 0;      // that is loaded, in elements
};

}  // namespace convt::core::cuda::sm90
