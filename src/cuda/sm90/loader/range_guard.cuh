// SPDX-License-Identifier: Apache-2.0
// The range guard, for kernels that multiply f16 instead of tf32: whole floats (tf32-as-f16) or parts of floats
// (f16x3). f16 and tf32 have 11 significant bits, and tensor cores multiply f16 twice as fast.
//
// The formats differ in range. From 2^-14 to 65504 a float rounds to the same number in both (ties aside); as f16, a
// smaller one is off by at most 2^-25. Packing scales weights and checks them. In this file producers check the inputs
// that they load. They set their block's flag if an input is too large, or if many neighbours of one channel are too
// small. The fallback kernel (tf32, tf32x3) recomputes the work tiles of flagged blocks (scheduler/fallback.cuh).
//
// A low part is about 2^-11 of its float, so f16x3 needs a range that is 2^12 wider. Each block scales inputs by the
// power of two that puts the largest input of a sample into [2^11, 2^12).
#pragma once

#include <bit>

#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/scheduler/fallback.cuh"

namespace convt::core::cuda::sm90 {

// Orders magnitudes as unsigned numbers; 0 comes last.
__device__ inline unsigned order_of(float x) { return 2 * __float_as_uint(x) - 1; }
inline constexpr unsigned order_of_zero = ~0U;
template <class E>
inline constexpr float tiny_of = std::is_same_v<E, SplitF16> ? tiny_split : tiny;
template <class E>
inline constexpr unsigned order_of_tiny = 2 * std::bit_cast<unsigned>(tiny_of<E>) - 1;  // order_of() it

// Scales inputs of f16x3; other inputs stay as they are.
template <class E>
__device__ void scale_inputs(E*, int) {}
__device__ inline void scale_inputs(SplitF16* x, int count) {
  const float scale = split_scales().input;
#pragma unroll
  for (int k = 0; k < count; ++k) x[k].value *= scale;
}

// Whether f16 suffices for `count` values in each lane of a warp. does(small, some) decides, by masks of the lanes that
// have a tiny value and of those that have a value other than 0. All threads of a warp call it.
template <class E, class Does>
__device__ bool judge_lanes(const E* x, int count, const Does& does) {
  unsigned least = order_of_zero;
#pragma unroll
  for (int k = 0; k < count; ++k) least = min(least, order_of(x[k].value));
  return does(__ballot_sync(~0U, least < order_of_tiny<E>), __ballot_sync(~0U, least != order_of_zero));
}
// The rule for `lanes`, which have the same channels. few: the input has no other pixels. If it has, one or two tiny
// values prove nothing: among millions of normally distributed numbers, some short group has two.
__device__ inline bool does_for_lanes(unsigned small, unsigned some, unsigned lanes, bool few) {
  const int count = __popc(small & lanes);
  return (count <= 2 && !few) || !loses_digits(count, __popc(some & lanes));
}

// The range guard of a producer thread.
template <class E>
struct RangeGuard {
  static constexpr bool guards = false;
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
template <class E>
requires(std::is_same_v<E, Tf32AsF16> || std::is_same_v<E, SplitF16>) struct RangeGuard<E> {
  static constexpr bool guards = true;
  static constexpr int unit = 8;  // channels that are judged together

  // Large values: add() takes operands as they are stored; end() checks the largest magnitude (amax) since the last
  // end().
  __device__ void add(const uint4& x) {
    const unsigned pairs[] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (const unsigned pair : pairs) greatest_ = greater_sizes(pair, greatest_);
  }
  __device__ void end(const ConvParams& p) {
    const unsigned sizes = greatest_ & 0x7fff7fff;
    if ((sizes & 0xffff) >= half_of_infinity || sizes >= half_of_infinity << 16) p.range_flags[blockIdx.x] = 1;
    greatest_ = 0;  // so that it takes no register between calls
  }
  // Small values: whether the lane has a pixel (`valid`) with a tiny value or a 0 among its `count` floats.
  __device__ static bool has_small(const E* x, int count, bool valid) {
    float least = tiny_of<E>;
#pragma unroll
    for (int k = 0; k < count; ++k) least = fminf(least, fabsf(x[k].value));
    return valid && least < tiny_of<E>;
  }
  // Whether has_small() holds in some lane, which is rare. All threads of a warp call it.
  __device__ static bool is_asked(bool small) { return __any_sync(~0U, small) != 0; }
  // Applies the rule, if is_asked(). Each lane has `count` channels of its own pixel, or zeros.
  __device__ static void judge_pixels(const ConvParams& p, const E* x, int count, bool few) {
#pragma unroll
    for (int c = 0; c < count; c += unit)
      judge(p, x + c, [=](unsigned small, unsigned some) { return does_for_lanes(small, some, ~0U, few); });
  }
  // Asks, and applies the rule. A pixel has 2, 4 or 8 units, and each lane has one of them.
  __device__ static void judge_units(const ConvParams& p, const E* x, int units, bool valid) {
    if (!is_asked(has_small(x, unit, valid))) return;
    judge(p, x, [=, &p](unsigned small, unsigned some) {
      const bool few = p.halo_rows * units <= warp_threads;
      bool does = true;
#pragma unroll 1
      for (int u = 0; u < units; ++u)
        does &= does_for_lanes(small, some,
                               (units == 8   ? 0x01010101U
                                : units == 4 ? 0x11111111U
                                             : 0x55555555U)
                                   << u,
                               few);
      return does;
    });
  }
  // Applies the rule, if is_asked(). Each lane has one unit of the first or the second half of channels, or none.
  __device__ static void judge_halves(const ConvParams& p, const E* x, bool valid, bool second) {
    const unsigned lanes = __ballot_sync(~0U, valid && second), others = __ballot_sync(~0U, valid && !second);
    judge(p, x, [=, &p](unsigned small, unsigned some) {
      const bool few = 2 * p.halo_rows <= warp_threads;
      return does_for_lanes(small, some, lanes, few) && does_for_lanes(small, some, others, few);
    });
  }

 private:
  static constexpr unsigned half_of_infinity = 0x7c00;

  template <class Does>
  __device__ static void judge(const ConvParams& p, const E* x, const Does& does) {
    if (!judge_lanes(x, unit, does)) p.range_flags[blockIdx.x] = 1;
  }
  unsigned greatest_ = 0;  // a pair of f16 magnitudes, sign bits undefined; NaN is ignored, as it stays NaN in f16
};

// Calls f(x, count, few) for each group of a sample. A group is 8 channels of 32 neighbouring pixels; groups are spread
// over the input. few: the input has no other pixels. All blocks see the same sample. All threads of a block call it.
template <class E, int warps, class F>
__device__ void for_sample(const ConvParams& p, const F& f) {
  constexpr unsigned least_groups = 2 * warps, most_groups = 8 * warps;
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned units = static_cast<unsigned>(p.in_channels + 7) / 8;
  const unsigned images = static_cast<unsigned>(p.work_tiles) /
                          static_cast<unsigned>(p.axis[0].tiles * p.axis[1].tiles * p.axis[2].tiles * p.bands);
  const unsigned size[3] = {static_cast<unsigned>(p.axis[0].inputs), static_cast<unsigned>(p.axis[1].inputs),
                            static_cast<unsigned>(p.axis[2].inputs)};
  const unsigned pixels = size[0] * size[1] * size[2];
  if (pixels == 0) return;
#pragma unroll 1
  for (unsigned group = threadIdx.x / warp_threads; group < min(max(units, least_groups), most_groups);
       group += warps) {
    const unsigned unit = group % units, random = (group + 1) * 2654435761U;
    const unsigned image = static_cast<unsigned>(static_cast<std::uint64_t>(random) * images >> 32);
    unsigned pixel = (random ^ random >> 15) * 2246822519U % ((pixels + warp_threads - 1) / warp_threads);
    pixel = pixel * warp_threads + lane;
    const bool valid = pixel < pixels;
    const float* from = static_cast<const float*>(p.input) + image * p.image_step;
#pragma unroll
    for (int a = 2; a >= 0; --a) {
      const unsigned rest = pixel / size[a];
      from += (p.axis[a].lowest + static_cast<int>(pixel - rest * size[a])) * p.axis[a].step;
      pixel = rest;
    }
    E x[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const unsigned channel = unit * 8 + c;
      x[c].value = valid && channel < static_cast<unsigned>(p.in_channels) ? from[channel * p.channel_step] : 0;
    }
    f(x, 8, pixels <= warp_threads);
  }
}

// Finds the scale of inputs from a sample; returns whether there is one. All threads of a block call it.
template <int warps>
__device__ bool find_input_scale(const ConvParams& p) {
  auto* const greatest_of = reinterpret_cast<float*>(dynamic_shared());  // nothing else uses it yet
  // Exponents. A scale below 2^-23 would turn small normal numbers into zeros, and the guard must see them.
  constexpr int goal = 11, least = -60, most = goal + 23;
  float greatest = 0;
  bool finite = true;
  for_sample<SplitF16, warps>(p, [&](const SplitF16* x, int count, bool) {
#pragma unroll
    for (int c = 0; c < count; ++c) {
      greatest = fmaxf(greatest, fabsf(x[c].value));
      finite &= isfinite(x[c].value) != 0;
    }
  });
  greatest = greatest_of_warp(greatest);
  if (threadIdx.x % warp_threads == 0) greatest_of[threadIdx.x / warp_threads] = greatest;
  finite = __syncthreads_or(finite ? 0 : 1) == 0;
#pragma unroll 1
  for (int i = 0; i < warps; ++i) greatest = fmaxf(greatest, greatest_of[i]);
  const int exponent = greatest == 0 ? 0 : static_cast<int>(__float_as_uint(greatest) >> 23) - 127;
  if (!finite || exponent < least || exponent > most) return false;
  if (threadIdx.x == 0)
    split_scales() = {__uint_as_float(static_cast<unsigned>(127 + goal - exponent) << 23),
                      __uint_as_float(static_cast<unsigned>(127 - goal + exponent) << 23)};
  __syncthreads();
  return true;
}

// Whether f16 suffices for a sample. If not, it hardly suffices anywhere, and is not tried. All threads of a block call
// it.
template <class E, int warps>
__device__ bool does_for_sample(const ConvParams& p) {
  if constexpr (std::is_same_v<E, SplitF16>)
    if (!find_input_scale<warps>(p)) return false;
  bool does = true;
  for_sample<E, warps>(p, [&](E* x, int count, bool few) {
    scale_inputs(x, count);
#pragma unroll
    for (int c = 0; c < count; ++c) does &= !(fabsf(x[c].value) >= beyond_f16);
    does &= judge_lanes(x, count, [=](unsigned small, unsigned some) { return does_for_lanes(small, some, ~0U, few); });
  });
  return __syncthreads_or(does ? 0 : 1) == 0;
}

// Whether f16 is worth a try; initialises the block's flag. All threads of a block call it. Inlined, it made ptxas give
// the loaders other registers: sliding planes took 18 % longer.
template <class E, int warps>
__device__ __noinline__ bool passes_range_guard(const ConvParams& p) {
  const bool does = does_for_sample<E, warps>(p);
  const int block = blockIdx.x, grid = gridDim.x;
  if (threadIdx.x == 0) p.range_flags[block] = does ? 0 : recompute_all;
  // The last block pads the flags with zeros to whole loads.
  if (block + 1 == grid && static_cast<int>(threadIdx.x) < flag_loads(grid) * 16 - grid)
    p.range_flags[grid + threadIdx.x] = 0;
  if (does) __syncthreads();  // before other threads set the flag
  wait_for_kernel_before();   // always: who waits for this kernel relies on the kernel before it, too
  if constexpr (std::is_same_v<E, SplitF16>)
    if (threadIdx.x == 0) split_scales().undo *= *p.weight_undo;  // read after the barriers' initialisation
  return does && !any_flag(p.weight_guard);
}

// Whether the kernel has to run. All threads of a block call it.
template <class Traits>
__device__ bool must_run(const ConvParams& p) {
  constexpr int threads = Traits::roles.threads();
  if constexpr (Traits::guarded) return passes_range_guard<typename Traits::Input, threads / warp_threads>(p);
  if constexpr (Traits::lists_work)
    if (p.fallback.first.flags != nullptr) return must_recompute<Traits>(p);
  return true;
}

}  // namespace convt::core::cuda::sm90
