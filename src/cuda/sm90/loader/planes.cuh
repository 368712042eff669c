// SPDX-License-Identifier: Apache-2.0
// The loader of planes: it loads a tile plane after plane. A thread loads the same pixels of each plane; only the
// plane's offset changes.
#pragma once

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/loader/halo.cuh"
#include "cuda/sm90/scheduler/sliding_planes.cuh"

namespace convt::core::cuda::sm90 {

inline constexpr WarpRoles sliding_roles = roles_of(configs::sliding);
inline constexpr int sliding_producer_warps = sliding_roles.producers * group_warps;
inline constexpr int sliding_producers = sliding_producer_warps * warp_threads;

// Whether shares of `parts` parts suffice. A line may have one pair more than half of its pixels.
template <int pixels, int parts>
__device__ bool can_share(const ConvParams& p) {
  const int all = pixels == 1 ? p.halo_rows : p.axis[1].halo * (p.axis[2].halo / pixels + 1);
  return !p.units && 2 * all <= parts * sliding_producers && p.axis[1].inputs > 0 && p.axis[2].inputs > 0;
}

// A thread's share of every plane of a tile: parts of lines, each with one half of a chunk's channels, as whole chunks
// would divide unevenly. Computed once for all planes.
template <class E, int pixels, int parts>
struct Share {
  const E* from[parts];  // in plane 0, at channel 0; clamped to the image
  RowOffsets<pixels> rows[parts];

  __device__ Share(const ConvParams& p, const Corner& corner) {
    int thread = static_cast<int>(threadIdx.x) - sliding_roles.consumers * group_threads;
    opaque(thread);  // recomputed, to save registers
    HaloLines<E, pixels> lines(p, corner);
    // If possible, a warp has parts of one line only: its loads then touch fewer cache lines.
    const int whole = (lines.parts + warp_threads - 1) / warp_threads * warp_threads;
    if (pixels > 1 && 2 * p.axis[1].halo * whole <= parts * sliding_producers) lines.parts = whole;
    const int all = lines.all(p);
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int half = thread + i * sliding_producers;
      const HaloPart part(lines, half % all);
      const int at[3] = {0, part.line, part.at};
      from[i] = static_cast<const E*>(p.input) + corner.image * p.image_step;
      bool inside = true;
#pragma unroll
      for (int a = 1; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int x = corner.at[a] + at[a];
        inside &= is_inside(axis, x);
        int inputs = axis.inputs;
        opaque(inputs);  // recomputed, to save registers
        from[i] += (axis.lowest + min(max(x - axis.lowest, 0), inputs - (a == 2 ? pixels : 1))) * axis.step;
      }
      using R = RowOffsets<pixels>;
      rows[i] =
          R(p, part, p.row_bytes,
            (inside ? R::inside : 0) | (half >= all ? R::second : 0) | (half >= 2 * all ? R::absent | R::none : 0));
    }
  }
};

// What a thread loads at once, without conditions: 8 channels of each part of its share.
template <class E, int pixels, int parts>
using Group = Loaded<E, pixels>[parts][group_channels];

// Iterates over the groups of 8 channels of all planes.
struct GroupIndex {
  int first = 0, group = 0;  // the chunk's first channel; the group's index in each half of the chunk

  __device__ bool in_last(const ConvParams& p) const { return first + 2 * p.groups * group_channels >= p.in_channels; }
  __device__ int groups(const ConvParams& p) const { return in_last(p) ? p.last_groups : p.groups; }
  // Whether the chunk has all its channels.
  __device__ bool full(const ConvParams& p) const { return first + 2 * groups(p) * group_channels <= p.in_channels; }
  __device__ int channel(const ConvParams& p, bool second) const {  // in the chunk
    return ((second ? groups(p) : 0) + group) * group_channels;
  }
  __device__ bool ends(const ConvParams& p) const { return group + 1 == groups(p); }  // the chunk
  // Advances; true at the end of a plane.
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

// plane: its offset, in elements.
template <bool full, class E, int pixels, int parts>
__device__ void load_group(const ConvParams& p, const Share<E, pixels, parts>& share, const GroupIndex& at,
                           std::int64_t plane, Group<E, pixels, parts>& x) {
  using R = RowOffsets<pixels>;
  std::int64_t step = p.channel_step;
  opaque(step);  // recomputed, to save registers
  const std::int64_t channel_bytes = step * static_cast<std::int64_t>(sizeof(E));
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const int offset = share.rows[i].at(0);
    if (i + 1 == parts && (offset & R::none) != 0) continue;  // skipped by whole warps
    const int channel = at.first + at.channel(p, (offset & R::second) != 0);
    const E* const first = share.from[i] + (plane + (full ? channel : min(channel, p.in_channels - 1)) * step);
    const auto* from = reinterpret_cast<const Loaded<E, pixels>*>(first);
    int left = p.in_channels - channel;
    if (!full) opaque(left);  // recomputed, to save registers
#pragma unroll
    for (int c = 0; c < group_channels; ++c) x[i][c] = load_next(from, full || c + 1 < left ? channel_bytes : 0);
  }
}
template <bool full, class E, int pixels, int parts>
__device__ void store_group(const ConvParams& p, const Share<E, pixels, parts>& share, const GroupIndex& at,
                            Group<E, pixels, parts>& x, unsigned char* halo_stage, RangeGuard<E>& guard) {
  using R = RowOffsets<pixels>;
  constexpr int size = operand_bytes<E>, each = 16 / size;
  const int turned = first_pixel<pixels>();
  const auto is_loaded = [](int bits) { return (bits & (R::inside | R::none)) == R::inside; };
  bool small = false;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    const int bits = share.rows[i].at(0);
    int left = p.in_channels - at.first - at.channel(p, (bits & R::second) != 0);
    if (!full) opaque(left);
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
      const int offset = share.rows[i].at(k), to = (offset & -16) ^ channel * size;
#pragma unroll
      for (int c = 0; c < group_channels; c += each) {
        const uint4 unit = unit_of(x[i] + c, k ^ turned);
        // With single pixels only the last part is tested. In tiny tiles, other parts may be absent and store zeros.
        if ((pixels == 1 && i + 1 < parts) || (offset & R::absent) == 0) {
          guard.add(unit);
          *reinterpret_cast<uint4*>(halo_stage + (to ^ c * size)) = {unit.x & mask, unit.y & mask, unit.z & mask,
                                                                     unit.w & mask};
        }
      }
    }
  }
  guard.end(p);
}

// Loads neighbouring planes of a tile, each chunk into the next stage. As many groups as fit in registers are loaded
// before the first is stored: the compiler counts loads in flight together, so a wait for one is a wait for all.
template <class E, int pixels, int parts>
class PlaneFiller {
  static constexpr int groups = 4 / parts;
  using X = Group<E, pixels, parts>;

 public:
  __device__ PlaneFiller(const ConvParams& p, const Shared& shared, const Share<E, pixels, parts>& share,
                         unsigned char* halo_stages, PipelineState& halo_stage, RangeGuard<E>& guard)
      : p_(p), shared_(shared), share_(share), halo_stages_(halo_stages), halo_stage_(halo_stage), guard_(guard) {}

  __device__ void fill(int first, int planes) {
    plane_ = first * p_.axis[0].step;
    opaque(loaded_.first);  // recomputed, to save registers
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
    if (stored_.group == 0) wait(shared_.halo_empty(halo_stage_.index), halo_stage_.phase ^ 1);
    unsigned char* const to = halo_stages_ + halo_stage_.index * p_.halo_stage_bytes;
    if (stored_.full(p_))
      store_group<true>(p_, share_, stored_, x, to, guard_);
    else
      store_group<false>(p_, share_, stored_, x, to, guard_);
    if (stored_.ends(p_)) {
      // One lane arrives for the warp: a thread writes the same rows of every plane, so no other thread overwrites
      // them.
      fence_async();
      __syncwarp();
      int lane = threadIdx.x % warp_threads;
      opaque(lane);  // recomputed, to save registers
      if (lane == 0) arrive_for(shared_.halo_full(halo_stage_.index), warp_threads);
      halo_stage_.advance();
    }
    stored_.next(p_);
  }

  const ConvParams& p_;
  const Shared& shared_;
  const Share<E, pixels, parts>& share_;
  unsigned char* halo_stages_;
  PipelineState& halo_stage_;
  RangeGuard<E>& guard_;
  GroupIndex loaded_, stored_;  // the next group to load, to store
  std::int64_t plane_ = 0;      // offset of the plane being loaded
};

// Loads by shares; returns false if shares would be too large.
template <class Traits, int pixels>
__device__ bool fill_shares(const ConvParams& p, const Memory& memory, RangeGuard<typename Traits::Input>& guard) {
  using E = typename Traits::Input;
  constexpr int m_tiles = Traits::m_tiles;
  constexpr int parts = m_tiles + 2 - pixels;  // enough for all but long thin tiles
  if (!can_share<pixels, parts>(p)) return false;
  PipelineState halo_stage{p.halo_stages};
  for_each_plane_range<Traits>(p, [&](const PlaneRange& range) {
    const Inputs inputs(p.axis[0], range);
    const Share<E, pixels, parts> share(p, corner_of(p, range.work(p)));
    if (inputs.count > 0)
      PlaneFiller<E, pixels, parts>(p, memory.shared, share, memory.halo_stages, halo_stage, guard)
          .fill(inputs.first, inputs.count);
  });
  return true;
}

template <class Traits>
__device__ void fill_planes(const ConvParams& p, const Memory& memory) {
  using E = typename Traits::Input;
  constexpr int loads = 16;  // in flight for each producer
  const int first = static_cast<int>(threadIdx.x) - sliding_roles.first_producer();
  RangeGuard<E> guard;
  bool done = false;
  with_pixels<E>(p, [&]<int pixels>() { done = fill_shares<Traits, pixels>(p, memory, guard); });
  if (done) return;
  PipelineState halo_stage{p.halo_stages};
  Filler filler{first, sliding_producers};
  for_each_plane_range<Traits>(p, [&](const PlaneRange& range) {
    const Inputs inputs(p.axis[0], range);
    Corner corner = corner_of(p, range.work(p));
    corner.at[0] = inputs.first;
    for (int i = 0; i < inputs.count; ++i, ++corner.at[0])
      fill_box<E, loads, false>(
          p, memory.shared, corner, memory.halo_stages, halo_stage, filler, 1, [](int) {}, guard);
  });
}

}  // namespace convt::core::cuda::sm90
