// SPDX-License-Identifier: Apache-2.0
// f16 in place of tf32: both have 11 significant bits, and tensor cores multiply f16 twice as fast.
//
// What differs is the range. From 2^-14 to 65504, a float is rounded to the same number by either (ties aside); a
// smaller one is within 2^-25 of what it was. Packing scales filters and looks at their weights; here producers look at
// the inputs that they load: where one is too large, or where many neighbours of one channel are too small, they leave
// a flag, and the kernel of tf32 that is launched behind, and ends at once if there is none, does it all again.
#pragma once

#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// Sizes in the order of numbers without sign, but 0 is the largest.
__device__ inline unsigned order_of(float x) { return 2 * __float_as_uint(x) - 1; }
inline constexpr unsigned order_of_zero = ~0U;
inline constexpr unsigned order_of_tiny = 2 * ((127U - 16) << 23) - 1;  // 2 times its bits, less 1
static_assert(tiny_input == 0x1p-16F);

// Whether f16 does for some channels of a warp's pixels, of which each lane has so many values; does(tiny, some): lanes
// that have tiny values, and values that are not 0. By all threads of a warp.
template <class Does>
__device__ bool judge_lanes(const Halved* x, int count, const Does& does) {
  unsigned least = order_of_zero;
#pragma unroll
  for (int k = 0; k < count; ++k) least = min(least, order_of(x[k].value));
  return does(__ballot_sync(~0U, least < order_of_tiny), __ballot_sync(~0U, least != order_of_zero));
}
// Of lanes that have the same channels. few: there are no other pixels. Else one alone tells nothing, as others of its
// channels are elsewhere.
__device__ inline bool does_for_lanes(unsigned tiny, unsigned some, unsigned lanes, bool few) {
  const int count = __popc(tiny & lanes);
  return (count == 1 && !few) || !loses_digits(count, __popc(some & lanes));
}

// The range guard of a thread of the producers. A block leaves one flag.
template <class E>
struct RangeGuard {
  static constexpr bool guards = false;
  __device__ static void clear(const ConvParams&) {}
  __device__ void add(const uint4&) {}
  __device__ void end(const ConvParams&) {}
  template <class X>
  __device__ static bool has_small(const X*, int, bool) {
    return false;
  }
  __device__ static bool is_asked(bool) { return false; }
  template <class X>
  __device__ static void judge_pixels(const ConvParams&, const X*, int, bool) {}
  template <class X>
  __device__ static void judge_units(const ConvParams&, const X*, int, bool) {}
  template <class X>
  __device__ static void judge_halves(const ConvParams&, const X*, bool, bool) {}
};
template <>
struct RangeGuard<Halved> {
  static constexpr bool guards = true;
  static constexpr int unit = 8;  // channels that are judged together

  // By one thread, before any other guards; the last block leaves zeros behind its flag, as many as make whole loads.
  __device__ static void clear(const ConvParams& p) {
    int at = blockIdx.x, end = at + 1;
    if (end == static_cast<int>(gridDim.x)) end = flag_loads(end) * 16;
    for (; at < end; ++at) p.seen[at] = 0;
  }
  // Large values: what is stored, as f16; and behind some of that, what it came to.
  __device__ void add(const uint4& x) {
    const unsigned pairs[] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (const unsigned pair : pairs) greatest_ = greater_sizes(pair, greatest_);
  }
  __device__ void end(const ConvParams& p) {
    const unsigned sizes = greatest_ & 0x7fff7fff;
    if ((sizes & 0xffff) >= half_of_infinity || sizes >= half_of_infinity << 16) p.seen[blockIdx.x] = 1;
    greatest_ = 0;  // not kept until the next values come: registers are short
  }
  // Small values: floats, before they are stored. Whether a lane that has a pixel has something tiny, or a 0.
  __device__ static bool has_small(const Halved* x, int count, bool there) {
    float least = tiny_input;
#pragma unroll
    for (int k = 0; k < count; ++k) least = fminf(least, fabsf(x[k].value));
    return there && least < tiny_input;
  }
  // Whether some lane has: mostly none does. By all threads of a warp.
  __device__ static bool is_asked(bool small) { return __any_sync(~0U, small) != 0; }
  // Then they are judged. Each lane has so many channels of a pixel of its own, or zeros.
  __device__ static void judge_pixels(const ConvParams& p, const Halved* x, int count, bool few) {
#pragma unroll
    for (int c = 0; c < count; c += unit)
      judge(p, x + c, [=](unsigned tiny, unsigned some) { return does_for_lanes(tiny, some, ~0U, few); });
  }
  // Each lane has one unit, of so many that a pixel has: 4 or 8.
  __device__ static void judge_units(const ConvParams& p, const Halved* x, int units, bool there) {
    if (!is_asked(has_small(x, unit, there))) return;
    judge(p, x, [=, &p](unsigned tiny, unsigned some) {
      const bool few = p.halo_rows * units <= warp_threads;
      bool does = true;
#pragma unroll 1
      for (int u = 0; u < units; ++u)
        does &= does_for_lanes(tiny, some, (units == 8 ? 0x01010101U : 0x11111111U) << u, few);
      return does;
    });
  }
  // Each lane has one unit, or none; some lanes another one than others.
  __device__ static void judge_halves(const ConvParams& p, const Halved* x, bool there, bool second) {
    const unsigned lanes = __ballot_sync(~0U, there && second), others = __ballot_sync(~0U, there && !second);
    judge(p, x, [=, &p](unsigned tiny, unsigned some) {
      const bool few = 2 * p.halo_rows <= warp_threads;
      return does_for_lanes(tiny, some, lanes, few) && does_for_lanes(tiny, some, others, few);
    });
  }

 private:
  static constexpr unsigned half_of_infinity = 0x7c00;

  template <class Does>
  __device__ static void judge(const ConvParams& p, const Halved* x, const Does& does) {
    if (!judge_lanes(x, unit, does)) p.seen[blockIdx.x] = 1;
  }

  unsigned greatest_ = 0;  // a pair of f16, of any sign; NaN is passed over: f16 has it too
};

}  // namespace convt::core::cuda::sm90
