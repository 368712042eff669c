// SPDX-License-Identifier: Apache-2.0
// The value vocabulary (epilogue/value.hpp) of chains on values in registers: floats, with functions as accurate as
// float32 is (`precise`), or as results of 16 bits or of tf32's products can show. docs/numerics.md has their errors.
#pragma once

#include "cuda/chain/gelu_fit.hpp"
#include "cuda/chain/ops.cuh"
#include "cuda/common/instructions.cuh"
#include "epilogue/families.hpp"

// The ops' math once more, for values whose functions only devices have (families.hpp).
#pragma push_macro("CONVT_FN")
#undef CONVT_FN
#define CONVT_FN __device__
#define CONVT_OPS ops_in_registers
#include "convt_ops_includes.hpp"
#undef CONVT_OPS
#pragma pop_macro("CONVT_FN")

namespace convt::core::cuda {

template <bool precise>
struct Real {
  float x;

  Real() = default;
  __device__ explicit constexpr Real(double number) : x(static_cast<float>(number)) {}
  __device__ static Real of(float x) {
    Real value;
    value.x = x;
    return value;
  }

  __device__ friend Real operator+(Real a, Real b) { return of(a.x + b.x); }
  __device__ friend Real operator-(Real a, Real b) { return of(a.x - b.x); }
  __device__ friend Real operator*(Real a, Real b) { return of(a.x * b.x); }
  // Within 2 units of the last place. Correct rounding would take a call.
  __device__ friend Real operator/(Real a, Real b) { return of(cuda::quotient(a.x, b.x)); }
  __device__ friend bool operator<(Real a, Real b) { return a.x < b.x; }
  __device__ friend bool operator>(Real a, Real b) { return a.x > b.x; }
  __device__ friend bool operator<=(Real a, Real b) { return a.x <= b.x; }
  __device__ friend bool operator>=(Real a, Real b) { return a.x >= b.x; }
  __device__ friend bool operator==(Real a, Real b) { return a.x == b.x; }

  __device__ friend Real select(bool condition, Real yes, Real no) { return of(condition ? yes.x : no.x); }
  __device__ friend bool is_nan(Real a) { return a.x != a.x; }
  __device__ friend bool is_infinite(Real a) { return fabsf(a.x) == INFINITY; }
  __device__ friend Real maximum(Real a, Real b) { return of(cuda::maximum(a.x, b.x)); }
  __device__ friend Real minimum(Real a, Real b) { return of(cuda::minimum(a.x, b.x)); }
  __device__ friend Real sqrt(Real a) { return of(square_root(a.x)); }

  __device__ friend Real exp(Real a) { return of(precise ? expf(a.x) : natural_power(a.x)); }
  __device__ friend Real log(Real a) { return of(precise ? logf(a.x) : ln_2 * log_of_two(a.x)); }
  __device__ friend Real expm1(Real a) {
    if constexpr (precise) return of(expm1f(a.x));
    // The series' sixth term is below 2e-6 of the result.
    const float series = a.x * fmaf(a.x, fmaf(a.x, fmaf(a.x, fmaf(a.x, 1 / 120.f, 1 / 24.f), 1 / 6.f), 0.5f), 1.0f);
    return of(fabsf(a.x) < 0.25f ? series : natural_power(a.x) - 1);
  }
  __device__ friend Real log1p(Real a) {
    if constexpr (precise) return of(log1pf(a.x));
    const float series = a.x * fmaf(a.x, fmaf(a.x, fmaf(a.x, -0.25f, 1 / 3.f), -0.5f), 1.0f);
    return of(fabsf(a.x) < 0x1p-5f ? series : ln_2 * log_of_two(1 + a.x));
  }
  __device__ friend Real tanh(Real a) {
    if constexpr (precise) return of(tanhf(a.x));
    const float size = fabsf(a.x), power = power_of_two(-2 * log2_e * size), square = a.x * a.x;
    const float large = copysignf((1 - power) * inverse(1 + power), a.x);
    const float small = a.x * fmaf(square, -1 / 3.f, 1.0f);
    return of(size < 0.06f ? small : large);
  }
  __device__ friend Real erf(Real a) {
    if constexpr (precise) return of(erff(a.x));
    // 1 - 2^q(|x| / sqrt(2)): GELU's fit (gelu_fit.hpp), of an argument that is sqrt(2) times as large.
    constexpr GeluFit fit = gelu_fit<float>();
    const float argument = 0.70710678f * fabsf(a.x);
    float q = fit.q[0];
#pragma unroll
    for (int k = 1; k <= fit.degree; ++k) q = fmaf(q, argument, fit.q[k]);
    return of(copysignf(1 - power_of_two(q), a.x));
  }
  __device__ friend Real sin(Real a) {
    // x = n*pi + r, with pi in three parts, then the series of r. Beyond 10^7, where neighbouring floats are 1 apart,
    // the result is any value in [-1, 1]. For infinities the last sum is NaN.
    const float count = fmaf(a.x, 0.318309886f, 0x1.8p23f), n = count - 0x1.8p23f;
    const float r = fmaf(-n, 0x1.4442d2p-23f, fmaf(-n, 0x1.fb4p-11f, fmaf(-n, 0x1.92p1f, a.x))), z = r * r;
    float series = fmaf(z, 1 / 6227020800.f, -1 / 39916800.f);
    series = fmaf(series, z, 1 / 362880.f);
    series = fmaf(series, z, -1 / 5040.f);
    series = fmaf(series, z, 1 / 120.f);
    series = fmaf(series, z, -1 / 6.f);
    const float y = fminf(fmaxf(fmaf(r * z, series, r), -1.0f), 1.0f);
    return of((__float_as_int(count) & 1 ? -y : y) + (a.x - a.x));
  }

 private:
  static constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;
  // Its error is that of the product: |x| * 2^-24.
  __device__ static float natural_power(float x) { return power_of_two(x * log2_e); }
};

// What chains on elements of type E compute in, beside doubles.
template <class E>
using RealOf = Real<sizeof(E) == sizeof(float)>;

// Calls f with the op, if it is one of the family.
template <class Family, class F>
__device__ void visit_in_registers(int number, const void* bytes, F&& f) {
  switch (static_cast<OpNumber>(number)) {
#define CONVT_OP(name, Type)                                         \
  case OpNumber::name:                                               \
    if constexpr (std::is_base_of_v<Family, ops_in_registers::Type>) \
      f(*static_cast<const ops_in_registers::Type*>(bytes));         \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

}  // namespace convt::core::cuda
