// SPDX-License-Identifier: Apache-2.0
// Vectors in the vocabulary of epilogue/value.hpp, in which ops write their math: Values, one vector, and Pair, two of
// them side by side, which hides the latency of sums. What is transcendental is in math-inl.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Chosen {
  hn::Mask<hn::ScalableTag<T>> raw;
};

template <class T>
struct Values {
  using Lane = T;
  using Tag = hn::ScalableTag<T>;
  using Raw = hn::Vec<Tag>;
  using Mask = Chosen<T>;
  static constexpr std::int64_t lanes = hn::MaxLanes(Tag());
  Raw raw;

  HWY_INLINE explicit Values(Raw vector) : raw(vector) {}
  HWY_INLINE explicit Values(double number) : raw(hn::Set(Tag(), static_cast<T>(number))) {}
  static HWY_INLINE Values load(const T* from) { return Values(hn::LoadU(Tag(), from)); }
  HWY_INLINE void store(T* to) const { hn::StoreU(raw, Tag(), to); }
};

#define CONVT_VALUES \
  template <class T> \
  HWY_INLINE Values<T>
#define CONVT_CHOSEN \
  template <class T> \
  HWY_INLINE Chosen<T>
CONVT_VALUES operator+(Values<T> a, Values<T> b) { return Values<T>(hn::Add(a.raw, b.raw)); }
CONVT_VALUES operator-(Values<T> a, Values<T> b) { return Values<T>(hn::Sub(a.raw, b.raw)); }
CONVT_VALUES operator*(Values<T> a, Values<T> b) { return Values<T>(hn::Mul(a.raw, b.raw)); }
CONVT_VALUES operator/(Values<T> a, Values<T> b) { return Values<T>(hn::Div(a.raw, b.raw)); }
CONVT_CHOSEN operator<(Values<T> a, Values<T> b) { return {hn::Lt(a.raw, b.raw)}; }
CONVT_CHOSEN operator>(Values<T> a, Values<T> b) { return {hn::Gt(a.raw, b.raw)}; }
CONVT_CHOSEN operator<=(Values<T> a, Values<T> b) { return {hn::Le(a.raw, b.raw)}; }
CONVT_CHOSEN operator>=(Values<T> a, Values<T> b) { return {hn::Ge(a.raw, b.raw)}; }
CONVT_CHOSEN operator==(Values<T> a, Values<T> b) { return {hn::Eq(a.raw, b.raw)}; }
CONVT_CHOSEN is_nan(Values<T> a) { return {hn::IsNaN(a.raw)}; }
CONVT_VALUES select(Chosen<T> where, Values<T> yes, Values<T> no) {
  return Values<T>(hn::IfThenElse(where.raw, yes.raw, no.raw));
}
CONVT_VALUES absolute(Values<T> a) { return Values<T>(hn::Abs(a.raw)); }
CONVT_VALUES with_sign(Values<T> magnitude, Values<T> sign) { return Values<T>(hn::CopySign(magnitude.raw, sign.raw)); }
CONVT_VALUES sqrt(Values<T> a) { return Values<T>(hn::Sqrt(a.raw)); }
CONVT_VALUES mul_add(Values<T> a, Values<T> b, Values<T> c) { return Values<T>(hn::MulAdd(a.raw, b.raw, c.raw)); }
CONVT_VALUES negative_mul_add(Values<T> a, Values<T> b, Values<T> c) {
  return Values<T>(hn::NegMulAdd(a.raw, b.raw, c.raw));
}
CONVT_CHOSEN is_infinite(Values<T> a) { return absolute(a) == Values<T>(HUGE_VAL); }

// As the machine has them, in one instruction: of two numbers the larger or smaller; with a NaN in b, NaN. With one in
// a alone the answer differs between machines, which `maximum` and `minimum` mend: NaN then wins on either side.
#if HWY_TARGET == HWY_NEON
// Highway's Max and Min are FMAXNM and FMINNM, which drop NaN. FMAX and FMIN hand it on, from both sides.
HWY_INLINE Values<float> larger(Values<float> a, Values<float> b) {
  return Values<float>(Values<float>::Raw(vmaxq_f32(a.raw.raw, b.raw.raw)));
}
HWY_INLINE Values<float> smaller(Values<float> a, Values<float> b) {
  return Values<float>(Values<float>::Raw(vminq_f32(a.raw.raw, b.raw.raw)));
}
HWY_INLINE Values<double> larger(Values<double> a, Values<double> b) {
  return Values<double>(Values<double>::Raw(vmaxq_f64(a.raw.raw, b.raw.raw)));
}
HWY_INLINE Values<double> smaller(Values<double> a, Values<double> b) {
  return Values<double>(Values<double>::Raw(vminq_f64(a.raw.raw, b.raw.raw)));
}
CONVT_VALUES maximum(Values<T> a, Values<T> b) { return larger(a, b); }
CONVT_VALUES minimum(Values<T> a, Values<T> b) { return smaller(a, b); }
#else
#if HWY_TARGET == HWY_SCALAR
CONVT_VALUES larger(Values<T> a, Values<T> b) { return select(a > b, a, b); }
CONVT_VALUES smaller(Values<T> a, Values<T> b) { return select(a < b, a, b); }
#else
CONVT_VALUES larger(Values<T> a, Values<T> b) { return Values<T>(hn::Max(a.raw, b.raw)); }
CONVT_VALUES smaller(Values<T> a, Values<T> b) { return Values<T>(hn::Min(a.raw, b.raw)); }
#endif
CONVT_VALUES maximum(Values<T> a, Values<T> b) { return select(is_nan(a), a, larger(a, b)); }
CONVT_VALUES minimum(Values<T> a, Values<T> b) { return select(is_nan(a), a, smaller(a, b)); }
#endif
// NaN stays NaN.
CONVT_VALUES limit(Values<T> a, double low, double high) { return larger(Values<T>(low), smaller(Values<T>(high), a)); }
#undef CONVT_VALUES
#undef CONVT_CHOSEN

template <class V>
struct PairChosen {
  typename V::Mask low, high;
};

template <class V>
struct Pair {
  using Lane = typename V::Lane;
  using Mask = PairChosen<V>;
  static constexpr std::int64_t lanes = 2 * V::lanes;
  V low, high;

  HWY_INLINE Pair(V first, V second) : low(first), high(second) {}
  HWY_INLINE explicit Pair(double number) : low(number), high(number) {}
  static HWY_INLINE Pair load(const Lane* from) { return {V::load(from), V::load(from + V::lanes)}; }
  HWY_INLINE void store(Lane* to) const {
    low.store(to);
    high.store(to + V::lanes);
  }
};

#define CONVT_BINARY(name)                             \
  template <class V>                                   \
  HWY_INLINE Pair<V> name(Pair<V> a, Pair<V> b) {      \
    return {name(a.low, b.low), name(a.high, b.high)}; \
  }
#define CONVT_UNARY(name)               \
  template <class V>                    \
  HWY_INLINE Pair<V> name(Pair<V> a) {  \
    return {name(a.low), name(a.high)}; \
  }
#define CONVT_COMPARISON(sign)                                   \
  template <class V>                                             \
  HWY_INLINE PairChosen<V> operator sign(Pair<V> a, Pair<V> b) { \
    return {a.low sign b.low, a.high sign b.high};               \
  }
#define CONVT_ARITHMETIC(sign)                             \
  template <class V>                                       \
  HWY_INLINE Pair<V> operator sign(Pair<V> a, Pair<V> b) { \
    return {a.low sign b.low, a.high sign b.high};         \
  }
CONVT_ARITHMETIC(+)
CONVT_ARITHMETIC(-)
CONVT_ARITHMETIC(*)
CONVT_ARITHMETIC(/)
CONVT_COMPARISON(<)
CONVT_COMPARISON(>)
CONVT_BINARY(maximum)
CONVT_BINARY(minimum)
CONVT_UNARY(sqrt)
CONVT_UNARY(exp)
CONVT_UNARY(expm1)
CONVT_UNARY(log)
CONVT_UNARY(log1p)
CONVT_UNARY(tanh)
CONVT_UNARY(erf)
CONVT_UNARY(sin)
#undef CONVT_BINARY
#undef CONVT_UNARY
#undef CONVT_COMPARISON
#undef CONVT_ARITHMETIC
template <class V>
HWY_INLINE PairChosen<V> is_infinite(Pair<V> a) {
  return {is_infinite(a.low), is_infinite(a.high)};
}
template <class V>
HWY_INLINE Pair<V> select(PairChosen<V> where, Pair<V> yes, Pair<V> no) {
  return {select(where.low, yes.low, no.low), select(where.high, yes.high, no.high)};
}

template <class T>
using Four = Pair<Pair<Values<T>>>;

// The first `count` lanes, fewer than all: nothing behind them is read or written.
template <class T>
class Part {
 public:
  using V = Values<T>;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  HWY_INLINE explicit Part(std::int64_t count)
      : mask_(hn::FirstN(typename V::Tag(), static_cast<std::size_t>(count))) {}
  HWY_INLINE V load(const T* from) const { return V(hn::MaskedLoad(mask_, typename V::Tag(), from)); }
  HWY_INLINE void store(V values, T* to) const { hn::BlendedStore(values.raw, mask_, typename V::Tag(), to); }

 private:
  hn::Mask<typename V::Tag> mask_;
#else
  HWY_INLINE explicit Part(std::int64_t count) : count_(count) {}
  HWY_INLINE V load(const T* from) const {
    T all[V::lanes] = {};
    for (std::int64_t i = 0; i < count_; ++i) all[i] = from[i];
    return V::load(all);
  }
  HWY_INLINE void store(V values, T* to) const {
    T all[V::lanes];
    values.store(all);
    for (std::int64_t i = 0; i < count_; ++i) to[i] = all[i];
  }

 private:
  std::int64_t count_;
#endif
};

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
