// SPDX-License-Identifier: Apache-2.0
// The kernel that runs any chain on values of a slab, strip by strip. It may pool the values first.
#pragma once

#include "cuda/chain/pixels.cuh"

namespace convt::core::cuda {

// The part of a window inside the image, counted from the beginning of the box of inputs. counted: what the op divides
// by.
struct WindowPart {
  int begin, end;
  double counted;
};
__device__ inline WindowPart window_at(const PoolAxis& axis, int out, bool whole) {
  const std::int64_t start = axis.start + out * axis.stride;
  const std::int64_t begin = start > 0 ? start : 0;
  // Differences are compared, as start + size and in + padding - start may overflow 63 bits.
  const std::int64_t end = axis.size < axis.in - start ? start + axis.size : axis.in;
  const std::int64_t left = axis.in - start;
  const std::int64_t padded = axis.size - axis.padding <= left ? axis.size : left + axis.padding;
  const std::int64_t counted = whole ? padded : end - begin;
  return {static_cast<int>(begin - axis.origin), static_cast<int>(end - axis.origin), static_cast<double>(counted)};
}

// Folds a window as V: float sums over large windows lose digits. It loads several rows at once, so that their loads
// are in flight together.
template <class E, class V, class T, class Op>
__device__ T pool_window_as(const Op& op, const View& from, std::int64_t base, const WindowPart (&part)[3]) {
  constexpr int rows = sizeof(V) == sizeof(float) ? 5 : 3, each = 4;
  const std::int64_t size = sizeof(E), along_h = from.step.h * size, along_w = from.step.w * size;
  const int height = part[1].end - part[1].begin, all = (part[0].end - part[0].begin) * height;
  const std::int64_t next_plane = from.step.d * size - height * along_h;  // from the end of a plane's last row
  V folded = op.template start<V>();
  for (int w = part[2].begin; w < part[2].end; w += each) {
    const auto* row =
        reinterpret_cast<const char*>(static_cast<const E*>(from.data) + base + part[0].begin * from.step.d +
                                      part[1].begin * from.step.h + w * from.step.w);
    int left = height;  // rows of the plane
    for (int first = 0; first < all; first += rows) {
      V x[rows][each];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const char* one = row;
#pragma unroll
        for (int k = 0; k < each; ++k, one += along_w)
          x[r][k] = first + r < all && w + k < part[2].end ? static_cast<V>(to_real(*reinterpret_cast<const E*>(one)))
                                                           : op.template start<V>();
        row += along_h;
        if (--left > 0) continue;
        left = height;
        row += next_plane;
      }
#pragma unroll
      for (auto& of_row : x)
#pragma unroll
        for (const V v : of_row) folded = op.join(folded, v);
    }
  }
  return static_cast<T>(op.result(folded, static_cast<V>(part[0].counted * part[1].counted * part[2].counted)));
}
template <class E, class T, class Op>
__device__ T pool_window(const Op& op, const View& from, std::int64_t base, const WindowPart (&part)[3]) {
  constexpr double large = 256;
  const bool doubles = part[0].counted * part[1].counted * part[2].counted > large;
  return doubles ? pool_window_as<E, double, T>(op, from, base, part) : pool_window_as<E, T, T>(op, from, base, part);
}

template <class E, class T>
__device__ __noinline__ void fill_pooled(const ChainParams& p, Strip<T> strip) {
  // A thread has one pixel.
  const int pixel = static_cast<int>(threadIdx.x) & (strip.pixels() - 1), first = threadIdx.x >> strip.log_pixels;
  const Pixel at = strip.at[pixel];
  const WindowPart part[3] = {window_at(p.pool.axis[0], at.d, p.pool.whole_window),
                              window_at(p.pool.axis[1], at.h, p.pool.whole_window),
                              window_at(p.pool.axis[2], at.w, p.pool.whole_window)};
  const View from = p.from;  // a copy: parameters would be loaded again after every store
  const std::int64_t base = at.n * from.step.n + strip.first_channel * from.step.c;
  visit<Pool>(p.pool.op, p.pool.params.bytes, [&](const auto& op) {
    for (int c = first; c < strip.channels; c += block_threads >> strip.log_pixels)
      strip(c, pixel) = at.n < 0 ? T(0) : pool_window<E, T>(op, from, base + c * from.step.c, part);
  });
}

template <class T>
__device__ void fill_plain(const ChainParams& p, const Strip<T>& strip) {
  for (int i = threadIdx.x; i < strip.channels << strip.log_pixels; i += block_threads) {
    const int pixel = i & (strip.pixels() - 1), c = i >> strip.log_pixels;
    const Pixel place = strip.at[pixel];
    const std::int64_t from = offset(p.from.step, place) + (strip.first_channel + c) * p.from.step.c;
    strip(c, pixel) = place.n < 0 ? T(0) : load<T>(p.from.data, from, p.from.dtype);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads, sizeof(T) == sizeof(float) ? 3 : 2)
    chain_kernel(const __grid_constant__ ChainParams p) {
  unsigned char* const shared = dynamic_shared();
  Strip<T> strip = strip_in<T>(shared, 31 - __clz(p.strip_pixels));
  strip.pitch = strip.pixels() + 1;
  strip.data = p.strips == nullptr
                   ? reinterpret_cast<T*>(shared + strip_shared<T>(p.strip_pixels))
                   : static_cast<T*>(p.strips) + static_cast<std::int64_t>(blockIdx.x) * p.channels * strip.pitch;
  const std::int64_t pixels = static_cast<std::int64_t>(p.images) * p.size[0] * p.size[1] * p.size[2];
  const std::int64_t columns = (pixels + strip.pixels() - 1) >> strip.log_pixels;
  const int splits = (p.channels + p.strip_channels - 1) / p.strip_channels;
  // Blocks begin at the end: what was written last is still in the L2 cache.
  for (std::int64_t item = columns * splits - 1 - blockIdx.x; item >= 0; item -= gridDim.x) {
    strip.first_channel = static_cast<int>(item % splits) * p.strip_channels;
    strip.channels = min(p.strip_channels, p.channels - strip.first_channel);
    if (threadIdx.x < strip.pixels())
      reinterpret_cast<Pixel*>(shared)[threadIdx.x] = pixel_at(p, (item / splits << strip.log_pixels) + threadIdx.x);
    __syncthreads();
    if (p.pool.op < 0)
      fill_plain(p, strip);
    else if (sizeof(T) == sizeof(float) && p.from.dtype == CONVT_F16)
      fill_pooled<convt_f16>(p, strip);
    else if (sizeof(T) == sizeof(float) && p.from.dtype == CONVT_BF16)
      fill_pooled<convt_bf16>(p, strip);
    else
      fill_pooled<T>(p, strip);
    __syncthreads();
    run_chain(p.chain, strip, p.to);
    __syncthreads();
  }
}

template <class T>
std::size_t chain_shared(const ChainParams& p) {
  const auto strip = static_cast<std::size_t>(p.strip_channels) * static_cast<std::size_t>(p.strip_pixels + 1);
  return static_cast<std::size_t>(strip_shared<T>(p.strip_pixels)) + (p.strips == nullptr ? strip * sizeof(T) : 0);
}

template <class T>
void launch_chain(const ChainParams& params, const Launch& how) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (try_launch_pixels<T>(params, how)) return;
  }
  launch(chain_kernel<T>, "the chain's kernel", how, params);
}

}  // namespace convt::core::cuda
