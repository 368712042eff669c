// SPDX-License-Identifier: Apache-2.0
// GELU's polynomials: erf(|x| / sqrt(2)) = 1 - 2^q(|x| / 2). Each fit minimises the largest weighted error.
#pragma once

#include <type_traits>

#include "convt/convt.h"
#include "epilogue/value.hpp"

namespace convt::core::cuda {

inline constexpr int gelu_degree = 5;  // at most

struct GeluFit {
  int degree;
  float q[gelu_degree + 1];  // the highest power first
};

// For all x. q falls beyond the fit's end, so that tails vanish and infinities need no test. E: the tensors' elements.
template <class E>
CONVT_FN constexpr GeluFit gelu_fit() {
  // Floats, whose operands were rounded to tf32: Phi within 5e-7, x Phi(x) within 1.3e-6, for all x.
  if constexpr (std::is_same_v<E, float>)
    return {5, {-0.01645042375f, 0.11777538806f, -0.41992068291f, -1.83724248409f, -2.30215024948f, -1.12563248e-6f}};
  // 16 bits: x Phi(x) within 2^-14.7 of itself from -3 on, and within a fifth of a unit of f16's last place from -3.5
  // on. Below that it is within 2e-7, as 1 + erf in floats is.
  else
    return {5, {-0.01256059948f, 0.10368122905f, -0.40228384733f, -1.84613728523f, -2.30059862137f, -4.4122964e-5f}};
}

// For results of a norm over at most 128 channels, or means of such results: |x| < 12. Nothing may follow GELU but a
// factor and the rounding to E.
template <class E>
CONVT_FN constexpr GeluFit gelu_of_norm_fit() {
  // x Phi(x) within 7e-6, where tf32 leaves 3e-4 of x. Beyond 18, q would rise again.
  if constexpr (std::is_same_v<E, float>)
    return {4, {0.0618607386f, -0.3526356572f, -1.8720579295f, -2.2947450387f, -4.79576184e-4f}};
  // x Phi(x) within 2^-9.2 of itself, 0.4 units of bf16's last place, from -3 on, and within 1.4e-5 beyond. Rounded to
  // bf16, the error of normally distributed x is 1 % more than rounding alone makes.
  else if constexpr (std::is_same_v<E, convt_bf16>)
    return {3, {-0.1728574398f, -2.0336273748f, -2.2492862831f, -2.2568878727e-3f}};
  // x Phi(x) within 2^-11.8 of itself, at most 0.6 units of f16's last place, from -3 on, and within 2.4e-6 beyond;
  // beyond 18, q would rise again. Rounded to f16, the error of normally distributed x is 0.5 % more than rounding
  // alone makes.
  else
    return {4, {0.05556541096f, -0.3375870526f, -1.882097691f, -2.293299027f, -3.498254568e-4f}};
}

}  // namespace convt::core::cuda
