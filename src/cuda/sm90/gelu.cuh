// SPDX-License-Identifier: Apache-2.0
// GELU of accumulators, as close as what follows can tell.
#pragma once

#include <type_traits>

#include "cuda/sm90/instructions.cuh"
#include "epilogue/value.hpp"

namespace convt::core::cuda::sm90 {

// erf(|x| / sqrt(2)) = 1 - 2^q(|x| / 2), q a polynomial, its highest power first. Both fits make the greatest weighted
// error least; both q fall beyond the fit's end, so that tails vanish and infinities need no care.
struct GeluFit {
  static constexpr int degree = 5;
  float q[degree + 1];
};
template <class E>
CONVT_FN constexpr GeluFit gelu_fit() {
  // Floats, whose products were rounded to tf32: Phi within 5e-7, x Phi(x) within 1.1e-6, for all x.
  if constexpr (std::is_same_v<E, float>)
    return {-0.01645042375f, 0.11777538806f, -0.41992068291f, -1.83724248409f, -2.30215024948f, -1.12563248e-6f};
  // 16 bits: x Phi(x) within 2^-14.8 of itself from -3 on, a fifth of a unit of f16's last place from -3.5 on, and
  // within 2e-7 beyond, which is what floats' 1 + erf leaves of it.
  else
    return {-0.01256059948f, 0.10368122905f, -0.40228384733f, -1.84613728523f, -2.30059862137f, -4.4122964e-5f};
}

// From h = x/2 to x Phi(x) = h + |h| erf(|x| / sqrt(2)), in 8 instructions. Like 0.5 x (1 + erf), it makes NaN of -Inf.
// Several at once, step by step: a warp has few neighbours to hide its latencies.
template <class E, int count>
__device__ void apply_gelu(float* h) {
  constexpr GeluFit fit = gelu_fit<E>();
  float q[count];
#pragma unroll
  for (int i = 0; i < count; ++i) q[i] = fit.q[0];
#pragma unroll
  for (int k = 1; k <= fit.degree; ++k)
#pragma unroll
    for (int i = 0; i < count; ++i) q[i] = fmaf(q[i], fabsf(h[i]), fit.q[k]);
#pragma unroll
  for (int i = 0; i < count; ++i) h[i] = fmaf(fabsf(h[i]), 1.0f - power_of_two(q[i]), h[i]);
}

}  // namespace convt::core::cuda::sm90
