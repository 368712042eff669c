// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log, log1p, tanh, erf, sin of vectors: NaN stays NaN, infinities have their limits. Highway's own take no
// infinities and lose NaN. The polynomials are minimax, fitted to the error named beside them.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "cpu/simd/erf_table.hpp"
#include "cpu/simd/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// c + c'*x + ..., by Horner's rule: vectors side by side fill its latency, so that fewer instructions win.
template <class V>
HWY_INLINE V polynomial([[maybe_unused]] V x, double c) {
  return V(c);
}
template <class V, class... Rest>
HWY_INLINE V polynomial(V x, double c, Rest... rest) {
  return mul_add(polynomial(x, rest...), x, V(c));
}

// What is known of the type's binary form.
template <class T>
struct Form;
template <>
struct Form<float> {
  static constexpr int fraction_bits = 23, bias = 127;
  static constexpr double integers = 0x1.8p23;  // added to a small number, leaves its nearest integer in the low bits
  static constexpr double ln2_high = 0x1.63p-1, ln2_low = -0x1.bd0106p-13;  // high times any exponent is exact
  static constexpr double exp_low = -104, exp_high = 89;                    // beyond: 0, infinity
  static constexpr double subnormal_scale = 0x1p25, subnormal_exponent = -25;
  static constexpr double pi[3] = {0x1.92p1, 0x1.fb4p-11, 0x1.4442d2p-23};  // of few digits: times a count exact
};
template <>
struct Form<double> {
  static constexpr int fraction_bits = 52, bias = 1023;
  static constexpr double integers = 0x1.8p52;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double exp_low = -746, exp_high = 710;
  static constexpr double subnormal_scale = 0x1p54, subnormal_exponent = -54;
  static constexpr double pi[3] = {0x1.921fb54p1, 0x1.10b461p-29, 0x1.a62633145c06ep-57};
};

template <class T>
constexpr hwy::MakeUnsigned<T> bits_of(double value) {
  return std::bit_cast<hwy::MakeUnsigned<T>>(static_cast<T>(value));
}

// The integer nearest to a small number, as such and in the low bits of a vector.
template <class T>
struct Nearest {
  Values<T> bits, integer;
  HWY_INLINE explicit Nearest(Values<T> x)
      : bits(x + Values<T>(Form<T>::integers)), integer(bits - Values<T>(Form<T>::integers)) {}
  HWY_INLINE Nearest(Values<T> x, Values<T> factor)
      : bits(mul_add(x, factor, Values<T>(Form<T>::integers))), integer(bits - Values<T>(Form<T>::integers)) {}
};

// 2^(n + more), where that is a normal number.
template <class T>
HWY_INLINE Values<T> power_of_two(const Nearest<T>& n, int more = 0) {
  const hn::RebindToSigned<typename Values<T>::Tag> integers;
  const auto exponent = hn::Add(hn::BitCast(integers, n.bits.raw), hn::Set(integers, Form<T>::bias + more));
  return Values<T>(hn::BitCast(typename Values<T>::Tag(), hn::ShiftLeft<Form<T>::fraction_bits>(exponent)));
}

// x*2^n, rounded once, for n within twice the exponents' range.
template <class T>
HWY_INLINE Values<T> scale_by(Values<T> x, const Nearest<T>& n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == sizeof(float))
    return Values<T>(typename Values<T>::Raw{_mm512_scalef_ps(x.raw.raw, n.integer.raw.raw)});
  else
    return Values<T>(typename Values<T>::Raw{_mm512_scalef_pd(x.raw.raw, n.integer.raw.raw)});
#else
  const Nearest<T> half(n.integer, Values<T>(0.5)), other(n.integer - half.integer);
  return x * power_of_two(half) * power_of_two(other);
#endif
}

// x = n*ln2 + rest, where |rest| <= ln2/2.
template <class T>
struct Reduced {
  Nearest<T> n;
  Values<T> rest;
  HWY_INLINE explicit Reduced(Values<T> x)
      : n(x, Values<T>(1.4426950408889634074)),
        rest(negative_mul_add(n.integer, Values<T>(Form<T>::ln2_low),
                              negative_mul_add(n.integer, Values<T>(Form<T>::ln2_high), x))) {}
};

// (e^r - 1 - r)/r^2 for |r| <= ln2/2; e^r comes out within 4e-9 (float), 4e-18 (double).
HWY_INLINE Values<float> exp_rest(Values<float> r) {
  return polynomial(r, 0.49999993341350078225, 0.16666519039950952534, 0.041668406386255512008,
                    0.0083689094903639304045, 0.0013814228578487127563);
}
HWY_INLINE Values<double> exp_rest(Values<double> r) {
  return polynomial(r, 0.50000000000000109042, 0.16666666666666405694, 0.041666666666527304134,
                    0.0083333333334979246735, 0.0013888888944488676224, 0.00019841269501167130541,
                    0.000024801492114795403917, 2.7557589288597596218e-6, 2.7630628858499088097e-7,
                    2.4999754975136596557e-8);
}

template <class T>
HWY_INLINE Values<T> exp(Values<T> x) {
  const Reduced<T> reduced(limit(x, Form<T>::exp_low, Form<T>::exp_high));
  const Values<T> r = reduced.rest;
  return scale_by(mul_add(r * r, exp_rest(r), r) + Values<T>(1), reduced.n);
}

template <class T>
HWY_INLINE Values<T> expm1(Values<T> x) {
  // Below -45 it is -1 in either type.
  const Reduced<T> reduced(limit(x, -45, Form<T>::exp_high));
  const Values<T> r = reduced.rest;
  const Values<T> half = power_of_two(reduced.n, -1);  // 2^n itself can overflow where the result does not
  const Values<T> y = mul_add(half, mul_add(r * r, exp_rest(r), r), half - Values<T>(0.5));
  return y + y;
}

// (log((1+s)/(1-s)) - 2s)/s^3 as a polynomial in z = s^2, |s| <= 3 - sqrt(8); times z, within 2e-9 and 4e-18.
HWY_INLINE Values<float> log_rest(Values<float> z) {
  return polynomial(z, 0.66666778310570611917, 0.399772778492301083, 0.29879421349278053572);
}
HWY_INLINE Values<double> log_rest(Values<double> z) {
  return polynomial(z, 0.66666666666667371515, 0.39999999999394415691, 0.28571428747318660875, 0.22222198026871966696,
                    0.18183594678461762969, 0.15313226685350864291, 0.1480464256152711891);
}

// log(x) + correction, for normal x > 0; the correction is small beside 1.
template <class T>
HWY_INLINE Values<T> log_of_normal(Values<T> x, Values<T> correction) {
  using F = Form<T>;
  using V = Values<T>;
  using Bits = hwy::MakeUnsigned<T>;
  const hn::RebindToUnsigned<typename V::Tag> bits;
  constexpr double sqrt_half = 0.70710678118654752440;
  // x = m*2^k with m in [sqrt(1/2), sqrt(2)).
  const auto shifted = hn::Add(hn::BitCast(bits, x.raw), hn::Set(bits, bits_of<T>(1) - bits_of<T>(sqrt_half)));
  const auto exponent = hn::Or(hn::ShiftRight<F::fraction_bits>(shifted), hn::Set(bits, bits_of<T>(F::integers)));
  const V k = V(hn::BitCast(typename V::Tag(), exponent)) - V(F::integers + F::bias);
  const auto fraction = hn::And(shifted, hn::Set(bits, (Bits{1} << F::fraction_bits) - 1));
  const V f = V(hn::BitCast(typename V::Tag(), hn::Add(fraction, hn::Set(bits, bits_of<T>(sqrt_half))))) - V(1);
  const V s = f / (V(2) + f), z = s * s, half_square = V(0.5) * f * f;
  const V low = mul_add(s, mul_add(z, log_rest(z), half_square), mul_add(k, V(F::ln2_low), correction));
  return mul_add(k, V(F::ln2_high), (low - half_square) + f);
}

// What log gives for arguments that are not positive and finite; elsewhere `value`.
template <class T>
HWY_INLINE Values<T> with_log_limits(Values<T> x, Values<T> value) {
  using V = Values<T>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const V beyond = select(x == V(0), V(-infinity), select(x > V(0), x, V(std::numeric_limits<double>::quiet_NaN())));
  return select(x > V(0), select(x < V(infinity), value, beyond), beyond);
}

template <class T>
HWY_INLINE Values<T> log(Values<T> x) {
  using V = Values<T>;
  const auto subnormal = x < V(static_cast<double>(std::numeric_limits<T>::min()));
  const V normal = select(subnormal, x * V(Form<T>::subnormal_scale), x);
  const V exponent = select(subnormal, V(Form<T>::subnormal_exponent), V(0));
  const V value = log_of_normal(normal, exponent * V(Form<T>::ln2_low));
  return with_log_limits(x, mul_add(exponent, V(Form<T>::ln2_high), value));
}

template <class T>
HWY_INLINE Values<T> log1p(Values<T> x) {
  using V = Values<T>;
  const V y = V(1) + x;
  return with_log_limits(y, log_of_normal(y, (x - (y - V(1))) / y));  // what y rounded away, over its slope
}

template <class T>
HWY_INLINE Values<T> tanh(Values<T> x) {
  using V = Values<T>;
  const V y = expm1(limit(V(2) * absolute(x), 0, 40));  // at 20 it is 1 in either type
  return with_sign(y / (y + V(2)), x);
}

#if HWY_TARGET == HWY_AVX3
// With 512 bits a coefficient of one of 32 pieces takes one instruction: half the time of what follows below. The error
// is 9e-8, most of it from rounding x*pieces.
HWY_INLINE Values<float> erf(Values<float> x) {
  using V = Values<float>;
  const V at = smaller(V(31), absolute(x) * V(erf_pieces));
  const V bits = at + V(0x1p23);  // the nearest integer is in the lowest bits
  const V t = at - (bits - V(0x1p23));
  const auto piece = [&](int k) HWY_ATTR {
    return V(V::Raw{_mm512_permutex2var_ps(_mm512_load_ps(erf_table[k]), _mm512_castps_si512(bits.raw.raw),
                                           _mm512_load_ps(erf_table[k] + 16))});
  };
  const V upper = mul_add(mul_add(piece(4), t, piece(3)), t, piece(2));
  return with_sign(mul_add(mul_add(upper, t, piece(1)), t, piece(0)), x);
}
#else
// 1 - 2^p, where p is within 2e-8 of log2(erfc(|x|)), in what that does to the result; at 4 it is 1. In all the error
// is 1e-7; a rational function of x^2 takes three quarters of the time, with an error three times as large.
HWY_INLINE Values<float> erf(Values<float> x) {
  using V = Values<float>;
  const hn::RebindToSigned<V::Tag> integers;
  const V a = smaller(V(4), absolute(x));
  const V p = a * polynomial(a, -1.6279082363615467612, -0.91842066775777676642, -0.14846339151448317484,
                             0.028216413428173586227, -0.00073409285930688071908, -0.0015133379014392569387,
                             0.00045267590555462797341, -0.000046211828005966795062);
  const Nearest<float> n(p);
  // 2^r for |r| <= 1/2, within 2e-9; then n is added to its exponent.
  const V power =
      polynomial(p - n.integer, 1.0, 0.69314720313394827686, 0.24022647878822193373, 0.055503318126122678286,
                 0.0096184398589634111872, 0.0013399149396851983072, 0.00015353188701411551966);
  const auto exponent = hn::ShiftLeft<Form<float>::fraction_bits>(hn::BitCast(integers, n.bits.raw));
  const V complement(hn::BitCast(V::Tag(), hn::Add(hn::BitCast(integers, power.raw), exponent)));
  return with_sign(V(1) - complement, x);
}
#endif

// 1 - exp(-x^2)*P(x)/Q(x), where P/Q is within 9e-18 of exp(x^2)*erfc(x) up to 6: an absolute error of 3e-16.
HWY_INLINE Values<double> erf(Values<double> x) {
  using V = Values<double>;
  const V a = limit(absolute(x), 0, 6);
  const V p = polynomial(a, 1.0000000000000000082, 1.870083924215254571, 1.744459302223839038, 1.0217781483536053878,
                         0.40551388546971506516, 0.11100711913485644567, 0.02045333640507059276,
                         0.0023271812136858846429, 0.00012626050557423157245);
  const V q = polynomial(a, 1.0, 2.9984630913107696428, 4.1278625877635988668, 3.4333619837742734928,
                         1.9073876236309242908, 0.73676725826950231131, 0.19881754336935850521, 0.036364482824579764299,
                         0.0041248215667336768129, 0.00022379091492523232022);
  return with_sign(V(1) - exp(V(0) - a * a) * (p / q), x);
}

// x = n*pi + r: sin(r) by its series up to r^13 (7e-10 at pi/2) or r^23 (5e-21), with the sign of an odd n.
HWY_INLINE Values<float> sin_rest(Values<float> z) {
  return polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800);
}
HWY_INLINE Values<double> sin_rest(Values<double> z) {
  return polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                    -1.0 / 1307674368000, 1.0 / 355687428096000, -1.0 / 121645100408832000,
                    1.0 / 51090942171709440000.0, -1.0 / 2.585201673888497664e22);
}
template <class T>
HWY_INLINE Values<T> sin(Values<T> x) {
  using V = Values<T>;
  constexpr double most = 16384;  // counts up to which products with parts of pi are exact
  if (HWY_UNLIKELY(!hn::AllTrue(typename V::Tag(), (absolute(x) <= V(most)).raw))) {
    T all[V::lanes];
    x.store(all);
    for (T& one : all) one = std::sin(one);
    return V::load(all);
  }
  const Nearest<T> n(x, V(0.31830988618379067154));
  V r = x;
  for (const double part : Form<T>::pi) r = negative_mul_add(n.integer, V(part), r);
  const V z = r * r, y = mul_add(r * z, sin_rest(z), r);
  const hn::RebindToUnsigned<typename V::Tag> bits;
  const auto odd = hn::ShiftLeft<int{8 * sizeof(T) - 1}>(hn::BitCast(bits, n.bits.raw));
  return V(hn::Xor(y.raw, hn::BitCast(typename V::Tag(), odd)));
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
