// SPDX-License-Identifier: Apache-2.0
// From sums to outputs: short chains on registers, any chain in a strip of shared memory.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/common/launch.hpp"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

// Each thread has two rows of a block, n / 4 columns of each; four neighbouring threads have all columns of a row.
template <int n>
struct Sums {
  static constexpr int pairs = n / 8;
  __device__ static int row(int half) {
    return threadIdx.x % group_threads / warp_threads * 16 + threadIdx.x % warp_threads / 4 + half * 8;
  }
  __device__ static int column(int pair) { return pair * 8 + threadIdx.x % 4 * 2; }
};

__device__ inline float sum_of_four(float x) {
  x += __shfl_xor_sync(~0U, x, 1);
  return x + __shfl_xor_sync(~0U, x, 2);
}

// x = a*x + b by channel; of channels that are not there, those of the last that is.
template <int n>
__device__ void apply_line(const ShortChain::Line& line, int first, int channels, float (&x)[n / 2]) {
  if (line.a == nullptr) return;
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int c = min(first + Sums<n>::column(i) + k, channels - 1);
      const float a = __ldg(line.a + c), b = __ldg(line.b + c);
      x[4 * i + k] = fmaf(a, x[4 * i + k], b);
      x[4 * i + 2 + k] = fmaf(a, x[4 * i + 2 + k], b);
    }
}

// Two passes, and the rounded mean corrected by what is left: as in chain/strip.cuh.
template <int n>
__device__ void normalise(int channels, float eps, float (&x)[n / 2]) {
  const float each = 1.0f / static_cast<float>(channels);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0, total = 0, rest = 0;
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) sum += Sums<n>::column(i) + k < channels ? x[4 * i + 2 * half + k] : 0.0f;
    float centre = sum_of_four(sum) * each;
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float off = Sums<n>::column(i) + k < channels ? x[4 * i + 2 * half + k] - centre : 0.0f;
        rest += off;
        total = fmaf(off, off, total);
      }
    rest = sum_of_four(rest);
    total = sum_of_four(total);
    const float correction = rest * each;
    total = fmaxf(fmaf(-rest, correction, total), 0.0f);
    centre += correction;
    const float scale = 1.0f / sqrtf(fmaf(total, each, eps));
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float& v = x[4 * i + 2 * half + k];
        v = (v - centre) * scale;
      }
  }
}

template <int n>
__device__ void run_short(const ShortChain& chain, int first, int channels, float (&x)[n / 2]) {
  apply_line<n>(chain.before_norm, first, channels, x);
  if (chain.norm != 0) normalise<n>(channels, chain.eps, x);
  apply_line<n>(chain.behind_norm, first, channels, x);
  if (chain.activation == ShortChain::gelu) {
#pragma unroll
    for (float& v : x) v = ops_device::Gelu{}.apply(v);
  } else if (chain.activation == ShortChain::relu) {
#pragma unroll
    for (float& v : x) v = ops_device::Relu{}.apply(v);
  }
  apply_line<n>(chain.last, first, channels, x);
}

template <class E>
__device__ E element(float x) {
  if constexpr (sizeof(E) == sizeof(float))
    return x;
  else if constexpr (std::is_same_v<E, convt_f16>)
    return {__half_as_ushort(__float2half_rn(x))};
  else
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <class E>
struct alignas(2 * sizeof(E)) Pair {
  E first, second;
};

// Sums of one block, of one phase or of two neighbouring ones, as elements of type E.
template <class E, int n, int joint, int blocks>
__device__ void store_block(const ConvParams& p, const Item& item, const int (&phase)[3], int group, int block,
                            const float (&sums)[joint][blocks][n / 2]) {
  const int first = item.band * n, there = p.out_channels - first;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pixel at = pixel_at(p, item, phase, group * blocks + block, Sums<n>::row(half));
    if (at.n < 0) continue;
    E* to = static_cast<E*>(p.to.data) + offset(p.to.step, at) + (first + Sums<n>::column(0)) * p.to.step.c;
    const bool second = joint == 2 && phase[2] + 1 < p.axis[2].stride && at.w + 1 < p.axis[2].size;
#pragma unroll
    for (int i = 0; i < n / 8; ++i) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (Sums<n>::column(i) + k >= there) continue;
        E* const place = to + k * p.to.step.c;
        const int index = 4 * i + 2 * half + k;
        const E x = element<E>(sums[0][block][index]);
        if constexpr (joint == 2) {
          const E y = element<E>(sums[1][block][index]);
          if (second && p.paired) {
            *reinterpret_cast<Pair<E>*>(place) = {x, y};
            continue;
          }
          if (second) place[p.to.step.w] = y;
        }
        *place = x;
      }
      to += 8 * p.to.step.c;
    }
  }
}

template <class E, int n, int joint, int blocks>
__device__ void finish(const ConvParams& p, const Item& item, const int (&phase)[3], int group,
                       float (&sums)[joint][blocks][n / 2]) {
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
#pragma unroll
    for (int j = 0; j < joint; ++j) run_short<n>(p.quick, item.band * n, p.out_channels, sums[j][b]);
    if (sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
      store_block<E, n, joint, blocks>(p, item, phase, group, b, sums);
    else
      store_block<float, n, joint, blocks>(p, item, phase, group, b, sums);
  }
}

// A strip of a power of 2 blocks' positions in memory that all consumers share.
template <int n>
__device__ Strip<float> strip_at(const ConvParams& p, const Item& item, int log_pixels, unsigned char* memory) {
  Strip<float> strip = strip_in<float>(memory, log_pixels);
  strip.data = reinterpret_cast<float*>(memory + strip_shared<float>(strip.pixels()));
  strip.pitch = strip.pixels() + 1;
  strip.first_channel = item.band * n;
  strip.channels = min(n, p.out_channels - item.band * n);
  return strip;
}

__device__ inline void run_strip(const ConvParams& p, const Strip<float>& strip) {
  sync_strip();
  run_chain(p.chain, strip, p.to);
  sync_strip();
}

// One block of each warpgroup.
template <int n>
__device__ void finish_in_strip(const ConvParams& p, const Item& item, const int (&phase)[3],
                                const float (&sums)[n / 2], unsigned char* memory) {
  const Strip<float> strip = strip_at<n>(p, item, 7, memory);
  const int group = threadIdx.x / group_threads;
  if (threadIdx.x < strip.pixels())
    const_cast<Pixel*>(strip.at)[threadIdx.x] =
        pixel_at(p, item, phase, threadIdx.x / block_rows, threadIdx.x % block_rows);
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      strip(Sums<n>::column(i) + k % 2, group * block_rows + Sums<n>::row(k / 2)) = sums[4 * i + k];
  run_strip(p, strip);
}

// Where some weight is not finite: zeros outside the image must not meet it. Without tensor cores.
template <class E>
__device__ float sum_carefully(const ConvParams& p, const Item& item, const int (&phase)[3], const Pixel& at, int n,
                               int column) {
  const Class c = class_at(p, phase[0], phase[1], phase[2]);
  const int out[3] = {at.d, at.h, at.w};
  constexpr int channels = row_bytes / static_cast<int>(sizeof(E));
  float sum = 0;
  for (int tap = 0; tap < c.taps; ++tap) {
    const E* from = static_cast<const E*>(p.input) + at.n * p.image_step;
    bool inside = true;
    int rest = tap;
    for (int a = 2; a >= 0; --a) {
      const ConvAxis& axis = p.axis[a];
      const PhaseTaps taps = axis.taps.taps((axis.lead + out[a]) % axis.stride);
      const int index = rest % static_cast<int>(taps.count);
      rest /= static_cast<int>(taps.count);
      const int x = (axis.lead + out[a]) / axis.stride - static_cast<int>(taps.first_shift + index * taps.shift_step);
      inside &= static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
      from += x * axis.step;
    }
    if (!inside) continue;
    for (int channel = 0; channel < p.in_channels; ++channel) {
      const std::int64_t tile =
          (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks + channel / channels * c.taps + tap;
      const E* const weights = static_cast<const E*>(p.weights) + tile * n * channels;
      sum = fmaf(rounded_value(from[channel * p.channel_step]),
                 rounded_value(weights[weight_place<E>(column, channel % channels)]), sum);
    }
  }
  return sum;
}
template <class E, int n>
__device__ __noinline__ void run_carefully(const ConvParams& p, unsigned char* memory) {
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const Item item = item_at(p, i);
    for_each_phase(p, [&](int d, int h, int w) {
      const int phase[3] = {d, h, w};
      for (int block = 0; block < p.blocks; ++block) {
        const Strip<float> strip = strip_at<n>(p, item, 6, memory);
        if (threadIdx.x < block_rows)
          const_cast<Pixel*>(strip.at)[threadIdx.x] = pixel_at(p, item, phase, block, threadIdx.x);
        sync_strip();
        for (int k = threadIdx.x; k < block_rows * n; k += block_threads) {
          const Pixel at = strip.at[k % block_rows];
          strip(k / block_rows, k % block_rows) =
              at.n < 0 ? 0.0f : sum_carefully<E>(p, item, phase, at, n, k / block_rows);
        }
        run_strip(p, strip);
      }
    });
  }
}

}  // namespace convt::core::cuda::sm90
