// SPDX-License-Identifier: Apache-2.0
// Runs a chain on values that stay in registers. A lane has a pixel, and the warps of a block divide its channels. All
// loads of a thread are in flight at once. Threads synchronise only for statistics of channels.
#pragma once

#include <algorithm>

#include "cuda/chain/launchers.hpp"
#include "cuda/chain/strip.cuh"

namespace convt::core::cuda {

inline constexpr int block_warps = block_threads / warp_threads;

// A thread's channels, in quads. Warp w has channels w, w + block_warps, and so on. whole: all of them are valid.
template <class T, int quads, bool whole>
struct PixelValues {
  Quad<T> of[quads];

  // Calls f(v) for each valid channel, in order.
  template <class F>
  __device__ void for_each(const QuadPlace& place, F&& f) {
#pragma unroll
    for (int q = 0; q < quads; ++q)
#pragma unroll
      for (int i = 0; i < Quad<T>::size; ++i)
        if (whole || place.channel + (q * Quad<T>::size + i) * block_warps < place.channels) f(of[q].v[i]);
  }
};

// Joins the warps' values of each pixel, in the order of warps. `scratch` must not be written again before a barrier.
template <class T, class Join>
__device__ T join_warps(T own, T* scratch, const Join& join) {
  scratch[threadIdx.x] = own;
  __syncthreads();
  const int lane = threadIdx.x % warp_threads;
  T all = scratch[lane];
#pragma unroll
  for (int warp = 1; warp < block_warps; ++warp) all = join(all, scratch[warp * warp_threads + lane]);
  return all;
}

// Takes statistics as take_statistics() does, and applies the op to the values.
template <class Op, class T, int quads, bool whole>
__device__ void mix_pixels(const Op& op, const QuadPlace& place, T* scratch, PixelValues<T, quads, whole>& x) {
  constexpr bool norm = std::is_base_of_v<ops_device::Norm, Op>;
  const T count = static_cast<T>(place.channels);
  __syncthreads();
  T folded = op.template start<T>();
  x.for_each(place, [&](T v) { folded = op.join(folded, v); });
  T centre = op.centre(join_warps(folded, scratch, [&](T a, T b) { return op.join(a, b); }), count);
  T scale = 0;
  if constexpr (Op::two_pass) {
    const auto add = [](T a, T b) { return a + b; };
    T total = 0, rest = 0;
    x.for_each(place, [&](T v) {
      total += op.deviation(v, centre);
      if constexpr (norm) rest += v - centre;
    });
    total = join_warps(total, scratch + block_threads, add);
    if constexpr (norm) {
      rest = join_warps(rest, scratch + 2 * block_threads, add);
      const T correction = rest / count;
      total -= rest * correction;
      if (total < T(0)) total = T(0);
      centre += correction;
    }
    scale = op.scale(total, count);
  }
  x.for_each(place, [&](T& v) { v = op.map(v, centre, scale); });
}

// Applies a step that sees one element. Not inlined: all quads share one copy.
template <class T>
__device__ __noinline__ Quad<T> apply_apart(const ChainStep& step, Quad<T> x, const QuadPlace& place) {
  return apply_step(step, x, place, Strip<T>{});
}

template <class T, int quads, bool whole>
__device__ void run_step(const ChainStep& step, const QuadPlace& place, T* scratch, PixelValues<T, quads, whole>& x) {
  if (step.kind == ChainStep::map_channels) {
    const ops_device::Norm* norm = nullptr;  // several ops are norms and share one copy of mix_pixels()
    visit<Normalise>(step.op, step.params.bytes, [&](const auto& op) {
      if constexpr (std::is_base_of_v<ops_device::Norm, std::remove_cvref_t<decltype(op)>>)
        norm = &op;
      else
        mix_pixels(op, place, scratch, x);
    });
    if (norm != nullptr) mix_pixels(*norm, place, scratch, x);
    return;
  }
  if (step.kind == ChainStep::affine) {
    const auto* a = static_cast<const T*>(step.data[0]) + place.first_channel + place.channel;
    const auto* b = static_cast<const T*>(step.data[1]) + place.first_channel + place.channel;
    x.for_each(place, [&](T& v) {
      v = fma(*a, v, *b);
      a += block_warps;
      b += block_warps;
    });
    return;
  }
  if (step.kind == ChainStep::map_space && step.channels_each == 1 && step.weight[0] == nullptr) {
    const std::int64_t first = (place.first_channel + place.channel) * step.step.c;
    const std::int64_t region = (place.at.n < 0 ? 0 : offset(step.step, place.at)) + first;
    const auto *centre = static_cast<const T*>(step.data[0]) + region,
               *scale = static_cast<const T*>(step.data[1]) + region;
    x.for_each(place, [&](T& v) {
      v = ops_device::Norm{}.map(v, *centre, *scale);
      centre += block_warps * step.step.c;
      scale += block_warps * step.step.c;
    });
    return;
  }
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    QuadPlace own = place;
    own.channel += q * Quad<T>::size * block_warps;
    if (own.channel >= place.channels || own.at.n < 0) continue;
    x.of[q] = step.kind == ChainStep::pointwise ? apply_pointwise(step.op, step.params.bytes, x.of[q])
                                                : apply_apart(step, x.of[q], own);
  }
}

template <class E, class T, int quads, bool whole>
__device__ void store_pixel(const View& view, const QuadPlace& place, PixelValues<T, quads, whole>& x) {
  constexpr convt_dtype dtype = std::is_same_v<E, convt_f16>    ? CONVT_F16
                                : std::is_same_v<E, convt_bf16> ? CONVT_BF16
                                                                : CONVT_F32;
  E* to =
      static_cast<E*>(view.data) + offset(view.step, place.at) + (place.first_channel + place.channel) * view.step.c;
  x.for_each(place, [&](T v) {
    store(to, 0, dtype, v);
    to += block_warps * view.step.c;
  });
}

template <class T, int quads, bool whole>
__device__ void run_pixel(const ChainParams& p, const QuadPlace& place) {
  const bool there = place.at.n >= 0;
  PixelValues<T, quads, whole> x{};
  if (there) {
    const T* from = static_cast<const T*>(p.from.data) + offset(p.from.step, place.at) +
                    (place.first_channel + place.channel) * p.from.step.c;
    x.for_each(place, [&](T& v) {
      v = *from;
      from += block_warps * p.from.step.c;
    });
  }
  T* const scratch = reinterpret_cast<T*>(dynamic_shared());
  for (int s = 0; s < p.chain.count; ++s) run_step(p.chain.steps[s], place, scratch, x);
  if (!there) return;
  if (p.to.dtype == CONVT_F16)
    store_pixel<convt_f16>(p.to, place, x);
  else if (p.to.dtype == CONVT_BF16)
    store_pixel<convt_bf16>(p.to, place, x);
  else
    store_pixel<T>(p.to, place, x);
}

template <class T, int quads>
__global__ void __launch_bounds__(block_threads, quads <= 4 ? 2 : 1)
    pixel_kernel(const __grid_constant__ ChainParams p) {
  const int splits = (p.channels + p.strip_channels - 1) / p.strip_channels;
  const unsigned item = gridDim.x - 1 - blockIdx.x;  // blocks begin at the end, as in chain_kernel
  const int lane = threadIdx.x % warp_threads, first = static_cast<int>(item % splits) * p.strip_channels;
  const QuadPlace place{static_cast<int>(threadIdx.x) / warp_threads,
                        block_warps,
                        min(p.strip_channels, p.channels - first),
                        first,
                        lane,
                        pixel_at(p, std::int64_t{item / splits} * warp_threads + lane)};
  constexpr bool can_be_whole = quads <= 8;  // registers do not suffice for more
  if (can_be_whole && place.channels == quads * Quad<T>::size * block_warps)
    run_pixel<T, quads, can_be_whole>(p, place);
  else
    run_pixel<T, quads, false>(p, place);
}

// Launches the kernel, with a grid of its own, if it can run the chain; returns whether it can. Registers do not
// suffice for doubles.
template <class T>
bool try_launch_pixels(ChainParams p, const Launch& how) {
  constexpr int each = block_warps * Quad<T>::size, most_quads = 16, apart_quads = 4;
  const ChainStep *const begin = p.chain.steps, *const end = begin + p.chain.count;
  const auto has = [&](ChainStep::Kind kind) {
    return std::any_of(begin, end, [&](const ChainStep& step) { return step.kind == kind; });
  };
  const bool by_channel = p.channels > 1 && (p.from.step.c == 1 || p.to.step.c == 1);
  if (p.from.dtype != CONVT_F32 || p.pool.op >= 0 || by_channel || has(ChainStep::reduce_channels)) return false;
  p.strip_channels = has(ChainStep::map_channels) ? p.channels : std::min(p.channels, apart_quads * each);
  const std::int64_t pixels = std::int64_t{p.images} * p.size[0] * p.size[1] * p.size[2];
  const std::int64_t splits = (p.channels + p.strip_channels - 1) / p.strip_channels;
  const std::int64_t blocks = (pixels + warp_threads - 1) / warp_threads * splits;
  if (p.strip_channels > most_quads * each || blocks > std::int64_t{1} << 30) return false;
  Launch own = how;
  own.grid = static_cast<unsigned>(blocks);
  own.shared = 3 * block_threads * sizeof(T);
  const auto with = [&]<int quads>() {
    if (p.strip_channels > quads * each) return false;
    launch(pixel_kernel<T, quads>, "the chain's kernel in registers", own, p);
    return true;
  };
  return with.template operator()<1>() || with.template operator()<2>() || with.template operator()<4>() ||
         with.template operator()<8>() || with.template operator()<most_quads>();
}

}  // namespace convt::core::cuda
