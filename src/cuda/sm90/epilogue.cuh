// SPDX-License-Identifier: Apache-2.0
// From sums to outputs: short chains on registers, any chain in a strip of shared memory.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

__device__ inline float sum_of_four(float x) {
  x += __shfl_xor_sync(~0U, x, 1);
  return x + __shfl_xor_sync(~0U, x, 2);
}

// x = a*x + b by channel; columns that are not there become whatever.
template <int n>
__device__ void apply_line(const ShortChain::Line& line, int first, int channels, float (&x)[n / 2]) {
  if (line.a == nullptr) return;
  const int own = first + Sums<n>::column(0), left = channels - own;
  const float *const a = line.a + own, *const b = line.b + own;
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (8 * i + k >= left) continue;
      const float slope = __ldg(a + 8 * i + k), shift = __ldg(b + 8 * i + k);
      x[4 * i + k] = fmaf(slope, x[4 * i + k], shift);
      x[4 * i + 2 + k] = fmaf(slope, x[4 * i + 2 + k], shift);
    }
}

// `each` is 1 / channels. Two passes, and the rounded mean corrected by what is left: as in chain/strip.cuh.
template <int n>
__device__ void normalise(int channels, float each, float eps, float (&x)[n / 2]) {
  const int left = channels - Sums<n>::column(0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0, total = 0, rest = 0;
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) sum += 8 * i + k < left ? x[4 * i + 2 * half + k] : 0.0f;
    float centre = sum_of_four(sum) * each;
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float off = 8 * i + k < left ? x[4 * i + 2 * half + k] - centre : 0.0f;
        rest += off;
        total = fmaf(off, off, total);
      }
    rest = sum_of_four(rest);
    total = sum_of_four(total);
    const float correction = rest * each;
    total = fmaxf(fmaf(-rest, correction, total), 0.0f);
    centre += correction;
    const float scale = rsqrtf(fmaf(total, each, eps));
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float& v = x[4 * i + 2 * half + k];
        v = (v - centre) * scale;
      }
  }
}

// x Phi(x), with Phi(-|x|) = 2^q(|x|): q is a least-squares fit, weighted to the smallest greatest error of Phi, below
// 5e-8; beyond 5.5, Phi(-|x|) < 2e-8 is taken for 0. That is closer than 0.5 x (1 + erf) comes in floats.
// Several at once, step by step: a warp has few neighbours to hide its latencies.
template <int count>
__device__ void apply_gelu(float* x) {
  constexpr float q[] = {-2.772049129e-06f, 3.862074664e-05f,  -1.825475920e-04f, -1.458701445e-04f, 7.075471804e-03f,
                         -5.250502750e-02f, -4.592049122e-01f, -1.151105762e+00f, -1.000000000e+00f};
  float tail[count];
#pragma unroll
  for (int i = 0; i < count; ++i) tail[i] = q[0];
#pragma unroll
  for (int k = 1; k < 9; ++k)
#pragma unroll
    for (int i = 0; i < count; ++i) tail[i] = fmaf(tail[i], fabsf(x[i]), q[k]);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    tail[i] = power_of_two(tail[i]);
    if (fabsf(x[i]) > 5.5f) tail[i] = 0;
    x[i] *= x[i] > 0 ? 1.0f - tail[i] : tail[i];
  }
}

template <int n>
__device__ void run_short(const ShortChain& chain, int first, int channels, float (&x)[n / 2]) {
  apply_line<n>(chain.before_norm, first, channels, x);
  if (chain.norm != 0) normalise<n>(channels, chain.each, chain.eps, x);
  apply_line<n>(chain.behind_norm, first, channels, x);
  if (chain.activation == ShortChain::gelu) {
    constexpr int at_once = n % 16 == 0 ? 8 : 4;
#pragma unroll
    for (int i = 0; i < n / 2; i += at_once) apply_gelu<at_once>(x + i);
  } else if (chain.activation == ShortChain::relu) {
#pragma unroll
    for (float& v : x) v = ops_device::Relu{}.apply(v);
  }
  apply_line<n>(chain.last, first, channels, x);
}

template <int n>
__device__ void fold(const Fold& fold, bool first, const float (&x)[n / 2], float (&folded)[n / 2]) {
  if (first) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) folded[i] = x[i];
  } else if (fold.kind == Fold::sum) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) folded[i] += x[i];
  } else {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) folded[i] = value::maximum(folded[i], x[i]);
  }
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

// Where a block's row goes: the output of one phase, or of all of a position's.
template <bool folded>
__device__ Pixel result_at(const ConvParams& p, const Item& item, const int (&phase)[3], int block, int row) {
  Pixel at = pixel_at(p, item, phase, block, row);
  if constexpr (folded) {
    at.d /= p.axis[0].stride;
    at.h /= p.axis[1].stride;
    at.w /= p.axis[2].stride;
  }
  return at;
}

// A row's channels, or those of two neighbouring outputs.
template <class E, int n, bool pairs>
__device__ void store_row(E* to, std::int64_t step, int left, int half, const float (&x)[n / 2],
                          const float (&y)[n / 2]) {
  const auto put = [&](E* place, int index) {
    if constexpr (pairs)
      *reinterpret_cast<Pair<E>*>(place) = {element<E>(x[index]), element<E>(y[index])};
    else
      *place = element<E>(x[index]);
  };
#pragma unroll
  for (int i = 0; i < n / 8; ++i) {
    if (8 * i < left) put(to, 4 * i + 2 * half);
    if (8 * i + 1 < left) put(to + step, 4 * i + 2 * half + 1);
    to += 8 * step;
  }
}

// Sums of one block, x, as elements of type E; and of the next phase along w, y.
template <class E, int n, bool folded, bool joint>
__device__ void store_block(const ConvParams& p, const Item& item, const int (&phase)[3], int block,
                            const float (&x)[n / 2], const float (&y)[n / 2]) {
  const int first = item.band * n + Sums<n>::column(0), left = p.out_channels - first;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pixel at = result_at<folded>(p, item, phase, block, Sums<n>::row(half));
    if (at.n < 0) continue;
    E* const to = static_cast<E*>(p.to.data) + offset(p.to.step, at) + first * p.to.step.c;
    const bool second = joint && phase[2] + 1 < p.axis[2].stride && at.w + 1 < p.axis[2].size;
    if (second && p.paired) {
      store_row<E, n, true>(to, p.to.step.c, left, half, x, y);
    } else {
      store_row<E, n, false>(to, p.to.step.c, left, half, x, x);
      if (second) store_row<E, n, false>(to + p.to.step.w, p.to.step.c, left, half, y, y);
    }
  }
}

// A short chain, and stores. Values between stages are floats, whatever E is.
template <class E, int n, bool folded, int joint, int blocks>
__device__ void finish_with(const ShortChain& chain, const ConvParams& p, const Item& item, const int (&phase)[3],
                            float (&sums)[joint][blocks][n / 2]) {
  const int group = threadIdx.x / group_threads;
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
#pragma unroll
    for (int j = 0; j < joint; ++j) run_short<n>(chain, item.band * n, p.out_channels, sums[j][b]);
    if (sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
      store_block<E, n, folded, joint == 2>(p, item, phase, group * blocks + b, sums[0][b], sums[joint - 1][b]);
    else
      store_block<float, n, folded, joint == 2>(p, item, phase, group * blocks + b, sums[0][b], sums[joint - 1][b]);
  }
}
template <class E, int n, int joint, int blocks>
__device__ void finish(const ConvParams& p, const Item& item, const int (&phase)[3],
                       float (&sums)[joint][blocks][n / 2]) {
  finish_with<E, n, false>(p.quick, p, item, phase, sums);
}
template <class E, int n, int blocks>
__device__ void finish_folded(const ConvParams& p, const Item& item, float (&folded)[1][blocks][n / 2]) {
  if (p.fold.kind == Fold::sum) {
#pragma unroll
    for (auto& block : folded[0])
#pragma unroll
      for (float& x : block) x *= p.fold.each;
  }
  const int phase[3] = {0, 0, 0};
  finish_with<E, n, true>(p.behind, p, item, phase, folded);
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

}  // namespace convt::core::cuda::sm90
