// SPDX-License-Identifier: Apache-2.0
// A norm over the channels of each row of a thread.
#pragma once

#include "cuda/sm90/epilogue/scale_bias.cuh"
#include "cuda/sm90/mainloop/fragment.cuh"

namespace convt::core::cuda::sm90 {

// Sums over the four threads that share a row.
__device__ inline float sum_of_four(float x) {
  x += __shfl_xor_sync(~0U, x, 1);
  return x + __shfl_xor_sync(~0U, x, 2);
}

// A number for each row of a thread.
template <int joint, int m_tiles>
using PerRow = float[joint][m_tiles][2];

template <int joint, int m_tiles, class F>
__device__ void for_each_row(F&& f) {
#pragma unroll
  for (int j = 0; j < joint; ++j)
#pragma unroll
    for (int b = 0; b < m_tiles; ++b)
#pragma unroll
      for (int half = 0; half < 2; ++half) f(j, b, half);
}

// Sets columns past the last channel. An infinite input makes them NaN: their weights are zeros.
template <int n, int joint, int m_tiles>
__device__ void set_absent(int channels, const PerRow<joint, m_tiles>& to, float (&x)[joint][m_tiles][n / 2]) {
  if (channels >= n) return;
  int thread = threadIdx.x;
  opaque(thread);  // recomputed, to save registers
  const int left = channels - Fragment<n>::column(0, thread);
#pragma unroll
  for (int i = 0; i < n / 4; ++i)
    if (i / 2 * 8 + i % 2 >= left)
      for_each_row<joint, m_tiles>(
          [&](int j, int b, int half) { x[j][b][i / 2 * 4 + 2 * half + i % 2] = to[j][b][half]; });
}

// A norm's result is scale*x + offset (Shifted) or, if x is centred already, scale*x (Centred).
template <int joint, int m_tiles>
struct Centred {
  static constexpr bool at_once = false;
  PerRow<joint, m_tiles> scale;
};
template <int joint, int m_tiles>
struct Shifted : Centred<joint, m_tiles> {
  static constexpr bool at_once = true;
  PerRow<joint, m_tiles> offset;
};

// Centres rows, in two passes, and computes their scale.
//
// A mean of m floats is within m/8 + 4 roundings of the largest: 8 partial sums, three levels that join them, one
// product. Each float is a sum that tensor cores truncate at every step, by up to two roundings; from six steps on (ten
// with 128 columns) it is no more accurate itself. So the mean is not corrected by a third pass.
template <int n, bool without_affine, int joint, int m_tiles>
__device__ void centre(const RegisterEpilogue& chain, int channels, float (&x)[joint][m_tiles][n / 2],
                       PerRow<joint, m_tiles>& scale) {
  PerRow<joint, m_tiles> mean = {}, odd;
  if constexpr (!without_affine) set_absent<n>(channels, mean, x);
  for_each_row<joint, m_tiles>([&](int j, int b, int half) {
    mean[j][b][half] = x[j][b][2 * half];
    odd[j][b][half] = x[j][b][2 * half + 1];
    scale[j][b][half] = 0;
  });
#pragma unroll
  for (int i = 1; i < n / 8; ++i)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) {
      mean[j][b][half] += x[j][b][4 * i + 2 * half];
      odd[j][b][half] += x[j][b][4 * i + 2 * half + 1];
    });
  for_each_row<joint, m_tiles>(
      [&](int j, int b, int half) { mean[j][b][half] = sum_of_four(mean[j][b][half] + odd[j][b][half]) * chain.each; });
  if constexpr (!without_affine) set_absent<n>(channels, mean, x);
#pragma unroll
  for (int i = 0; i < n / 4; ++i)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) {
      float& v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      v -= mean[j][b][half];
      scale[j][b][half] = fmaf(v, v, scale[j][b][half]);
    });
  for_each_row<joint, m_tiles>([&](int j, int b, int half) {
    float& v = scale[j][b][half];
    v = chain.gain * rsqrtf(fmaf(sum_of_four(v), chain.each, chain.eps));
  });
}

// centre() in one pass, for a norm without affine. The mean of squares less the square of the mean is the variance,
// within 2^-19 of that square (2^-18 with 128 columns). Two passes follow if the square is more than 2^8 (2^7) times
// the variance, if the variance is tiny, or if squares overflow.
template <int n, int joint, int m_tiles>
__device__ void centre_at_once(const RegisterEpilogue& chain, float (&x)[joint][m_tiles][n / 2],
                               Shifted<joint, m_tiles>& rows) {
  PerRow<joint, m_tiles>&mean = rows.offset, &squares = rows.scale;
  for_each_row<joint, m_tiles>([&](int j, int b, int half) {
    mean[j][b][half] = x[j][b][2 * half];
    squares[j][b][half] = x[j][b][2 * half] * x[j][b][2 * half];
  });
#pragma unroll
  for (int i = 1; i < n / 4; ++i)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) {
      const float v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      mean[j][b][half] += v;
      squares[j][b][half] = fmaf(v, v, squares[j][b][half]);
    });
#pragma unroll  // all rows in each step: shuffles of other rows hide a shuffle's latency
  for (int lanes = 1; lanes <= 2; lanes *= 2)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) {
      mean[j][b][half] += __shfl_xor_sync(~0U, mean[j][b][half], lanes);
      squares[j][b][half] += __shfl_xor_sync(~0U, squares[j][b][half], lanes);
    });
  bool exact = true;
  for_each_row<joint, m_tiles>([&](int j, int b, int half) {
    const float m = mean[j][b][half] * chain.each, square = m * m;
    const float variance = fmaf(squares[j][b][half], chain.each, chain.eps) - square;
    exact &= variance >= fmaf(square, n > 64 ? 0x1p-7f : 0x1p-8f, 0x1p-100f) && variance < INFINITY;
    squares[j][b][half] = chain.gain * inverse_root(variance);
    mean[j][b][half] = -m * squares[j][b][half];
  });
  if (!__any_sync(~0U, !exact)) return;
  centre<n, true>(chain, n, x, rows.scale);
  for_each_row<joint, m_tiles>([&](int j, int b, int half) { rows.offset[j][b][half] = 0; });
}

// Applies the norm's scale and offset to `count` values of each row tile.
template <class Rows, int joint, int m_tiles, int count>
__device__ void end_norm(const Rows& rows, float (&x)[joint][m_tiles][count]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) {
      float& v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      if constexpr (Rows::at_once)
        v = fmaf(v, rows.scale[j][b][half], rows.offset[j][b][half]);
      else
        v *= rows.scale[j][b][half];
    });
}

}  // namespace convt::core::cuda::sm90
