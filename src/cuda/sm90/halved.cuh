// SPDX-License-Identifier: Apache-2.0
// f16 in place of tf32: both have 11 significant bits, and tensor cores multiply f16 twice as fast.
//
// What differs is the range. From 2^-14 to 65504, a float is rounded to the same number by either (ties aside); a
// smaller one is within 2^-25 of what it was. So producers look at what they load, and packing at weights: where
// something is too large, or where all that a warp has of a tile is so small that 2^-25 would matter, they leave a
// flag, and the kernel of tf32 that is launched behind, and ends at once if there is none, does it all again.
#pragma once

#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// What a thread of the producers has seen of a tile.
template <class E>
struct Seen {
  __device__ Seen(const ConvParams&, int, int) {}
  template <class X>
  __device__ void add(const X*, int) {}
  __device__ void end_tile(const ConvParams&, int) {}
};
template <>
struct Seen<Halved> {
  float greatest = 0;  // without sign; NaN is passed over: f16 has it too

  // By all threads of a warp, which is one of so many. Flags are [warp][block], and zeros behind the last.
  __device__ Seen(const ConvParams& p, int warp, int warps) {
    const int own = place(warp), last = warps * static_cast<int>(gridDim.x) - 1, lane = threadIdx.x % warp_threads;
    if (lane == 0) p.seen[own] = 0;
    if (own == last && own + 1 + lane < flag_loads(last + 1) * 16) p.seen[own + 1 + lane] = 0;
  }
  __device__ void add(const Halved* x, int count) {
#pragma unroll
    for (int i = 0; i < count; ++i) greatest = fmaxf(greatest, fabsf(x[i].value));
  }
  // By all threads of the warp.
  __device__ void end_tile(const ConvParams& p, int warp) {
    const float all = greatest_of_warp(greatest);
    greatest = 0;
    const bool does = all == 0 || (all >= least_halved && all < beyond_halved);
    if (!does && threadIdx.x % warp_threads == 0) p.seen[place(warp)] = 1;
  }

 private:
  __device__ static int place(int warp) { return warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x); }
};

}  // namespace convt::core::cuda::sm90
