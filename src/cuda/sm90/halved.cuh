// SPDX-License-Identifier: Apache-2.0
// f16 in place of tf32: both have 11 significant bits, and tensor cores multiply f16 twice as fast.
//
// What differs is the range. From 2^-14 to 65504, a float is rounded to the same number by either; a smaller one is
// within 2^-25 of what it was. So producers look at what they put into halo tiles, and packing at weights: where
// something is too large or not finite, or all that a warp has seen is so small that 2^-25 would matter, they leave a
// flag, and the kernel of tf32 that is launched behind, and ends at once if there is none, does it all again.
#pragma once

#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// By a thread of the producers, for all tiles of its block.
template <class E>
struct Seen {
  __device__ void add(const uint4&) {}
  __device__ void tell(const ConvParams&, int, int) const {}
};
template <>
struct Seen<Halved> {
  unsigned greatest = 0;  // two of f16, without sign: of even and of odd channels

  __device__ void add(const uint4& unit) {
    greatest = greater_halves(greatest, unit.x);
    greatest = greater_halves(greatest, unit.y);
    greatest = greater_halves(greatest, unit.z);
    greatest = greater_halves(greatest, unit.w);
  }
  // By all threads of a warp, which is one of so many. Flags are [warp][block], and zeros behind the last.
  __device__ void tell(const ConvParams& p, int warp, int warps) const {
    unsigned all = greatest;
#pragma unroll
    for (int lanes = 1; lanes < warp_threads; lanes *= 2) all = greater_halves(all, __shfl_xor_sync(~0U, all, lanes));
    const int most = max(static_cast<int>(all & 0xffff), static_cast<int>(all >> 16));
    const bool does = most == 0 || (most >= static_cast<int>(least_half) && most < static_cast<int>(infinite_half));
    const int blocks = gridDim.x, own = warp * blocks + static_cast<int>(blockIdx.x), last = warps * blocks - 1;
    const int lane = threadIdx.x % warp_threads;
    if (lane == 0) p.seen[own] = does ? 0 : 1;
    if (own == last && own + 1 + lane < flag_loads(last + 1) * 16) p.seen[own + 1 + lane] = 0;
  }
};

}  // namespace convt::core::cuda::sm90
