// SPDX-License-Identifier: Apache-2.0
// GELU of accumulators, as accurate as the results' dtype can show.
#pragma once

#include "cuda/chain/gelu_fit.hpp"
#include "cuda/sm90/instructions.cuh"
#include "epilogue/value.hpp"

namespace convt::core::cuda::sm90 {

// Replaces h = x/2 by x Phi(x) = h + |h| erf(|x| / sqrt(2)), in degree + 3 instructions. -Inf gives NaN, as it does in
// 0.5 x (1 + erf). If h = s x/2, and the fit's q takes |h| in place of |x|/2, the result is s x Phi(x).
// All values go through each instruction together: few other warps hide a warp's latencies.
template <int degree, int count>
__device__ void apply_gelu(const float* fit, float* h) {
  float q[count];
#pragma unroll
  for (int i = 0; i < count; ++i) q[i] = fit[0];
#pragma unroll
  for (int k = 1; k <= degree; ++k)
#pragma unroll
    for (int i = 0; i < count; ++i) q[i] = fmaf(q[i], fabsf(h[i]), fit[k]);
#pragma unroll
  for (int i = 0; i < count; ++i) h[i] = fmaf(fabsf(h[i]), 1.0f - power_of_two(q[i]), h[i]);
}
// GELU as accurate as float32 is.
template <int count>
__device__ void apply_precise_gelu(float* h) {
#pragma unroll
  for (int i = 0; i < count; ++i) h[i] = fmaf(h[i], erff(1.41421356f * h[i]), h[i]);
}

}  // namespace convt::core::cuda::sm90
