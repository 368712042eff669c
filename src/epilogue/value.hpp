// SPDX-License-Identifier: Apache-2.0
// The value vocabulary: what an op's math is written in. An op says
//     return select(x > V(0), x, V(slope) * x);
// and V may be a float or double (the functions below), a CUDA thread's float (the same functions), or an engine's SIMD
// vector: a class constructible from double, with + - * / and comparisons, whose namespace defines these same names
// (and takes V's masks in select()).
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#if defined(__CUDACC__)
#define CONVT_FN __host__ __device__
#else
#define CONVT_FN
#endif

namespace convt::core::value {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

template <std::floating_point T>
CONVT_FN T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

template <std::floating_point T>
CONVT_FN bool is_nan(T x) {
  return x != x;  // NOLINT(misc-redundant-expression)
}

// NaN wins over any number, as in PyTorch.
template <std::floating_point T>
CONVT_FN T maximum(T a, T b) {
  return a > b || is_nan(a) ? a : b;
}
template <std::floating_point T>
CONVT_FN T minimum(T a, T b) {
  return a < b || is_nan(a) ? a : b;
}

template <std::floating_point T>
CONVT_FN bool is_infinite(T x) {
  return x == T(infinity) || x == T(-infinity);
}

template <std::floating_point T>
CONVT_FN T exp(T x) {
  return std::exp(x);
}
template <std::floating_point T>
CONVT_FN T expm1(T x) {
  return std::expm1(x);
}
template <std::floating_point T>
CONVT_FN T log(T x) {
  return std::log(x);
}
template <std::floating_point T>
CONVT_FN T log1p(T x) {
  return std::log1p(x);
}
template <std::floating_point T>
CONVT_FN T tanh(T x) {
  return std::tanh(x);
}
template <std::floating_point T>
CONVT_FN T erf(T x) {
  return std::erf(x);
}
template <std::floating_point T>
CONVT_FN T sin(T x) {
  return std::sin(x);
}
template <std::floating_point T>
CONVT_FN T sqrt(T x) {
  return std::sqrt(x);
}

}  // namespace convt::core::value
