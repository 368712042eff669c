// SPDX-License-Identifier: Apache-2.0
// Elements as they are stored, to and from vectors of the type computed in: exact one way, rounded once to the nearest
// (ties to even) the other. A tag says how many.
#pragma once

#include <concepts>

#include "base/dtype.hpp"
#include "cpu/simd/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// Pairs that occur: f64 is computed in double, as are its f32 operands; all else in float.
template <class Stored, class T>
concept StoredFor = std::same_as<Stored, T> ||
    (std::same_as<T, double> ? std::same_as<Stored, float> : !std::same_as<Stored, double>);

template <class D>
HWY_INLINE hn::Vec<D> load_as(D tag, const hn::TFromD<D>* from) {
  return hn::LoadU(tag, from);
}
template <class D>
HWY_INLINE void store_as(D tag, hn::Vec<D> v, hn::TFromD<D>* to) {
  hn::StoreU(v, tag, to);
}

template <class D>
requires std::same_as < hn::TFromD<D>,
double > HWY_INLINE hn::Vec<D> load_as(D tag, const float* from) {
  return hn::PromoteTo(tag, hn::LoadU(hn::Rebind<float, D>(), from));
}
template <class D>
requires std::same_as < hn::TFromD<D>,
double > HWY_INLINE void store_as(D, hn::Vec<D> v, float* to) {
  const hn::Rebind<float, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
}

// ---- bf16: the upper half of a float.

template <class D>
HWY_INLINE hn::Vec<D> load_as(D tag, const convt_bf16* from) {
  const hn::RebindToUnsigned<D> bits;
  const auto half = hn::LoadU(hn::Rebind<std::uint16_t, D>(), &from->bits);
  return hn::BitCast(tag, hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
}
template <class D>
HWY_INLINE void store_as(D, hn::Vec<D> v, convt_bf16* to) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<std::uint16_t, D> half;
  const auto exact = hn::BitCast(bits, v);
  const auto odd = hn::And(hn::ShiftRight<16>(exact), hn::Set(bits, 1));
  const auto rounded = hn::Add(exact, hn::Add(odd, hn::Set(bits, 0x7fff)));
  const auto quiet = hn::Or(exact, hn::Set(bits, 0x400000));
  const auto result = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<16>(result))), half, &to->bits);
}

// ---- f16: by the machine's conversions where it has them; Highway's replacements lose subnormals, infinities and
// rounding.

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
template <class D>
HWY_INLINE hn::Vec<D> load_as(D tag, const convt_f16* from) {
  const auto half = hn::LoadU(hn::Rebind<std::uint16_t, D>(), &from->bits);
  return hn::PromoteTo(tag, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
}
template <class D>
HWY_INLINE void store_as(D, hn::Vec<D> v, convt_f16* to) {
  const hn::Rebind<std::uint16_t, D> half;
  hn::StoreU(hn::BitCast(half, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)), half, &to->bits);
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_as(D tag, const convt_f16* from) {
  const hn::RebindToUnsigned<D> bits;
  const auto wide = hn::PromoteTo(bits, hn::LoadU(hn::Rebind<std::uint16_t, D>(), &from->bits));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(bits, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(bits, 0x7fff)));
  const auto normal = hn::Add(magnitude, hn::Set(bits, 112U << 23));
  // As the fraction of 2^-14, from which 2^-14 is then taken away.
  const auto based = hn::BitCast(tag, hn::Add(magnitude, hn::Set(bits, 113U << 23)));
  const auto subnormal = hn::BitCast(bits, hn::Sub(based, hn::Set(tag, 0x1p-14F)));
  const auto special = hn::Or(magnitude, hn::Set(bits, 255U << 23));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 1U << 23)), subnormal, normal);
  return hn::BitCast(tag,
                     hn::Or(sign, hn::IfThenElse(hn::Gt(magnitude, hn::Set(bits, (31U << 23) - 1)), special, finite)));
}
template <class D>
HWY_INLINE void store_as(D tag, hn::Vec<D> v, convt_f16* to) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<std::uint16_t, D> half;
  const auto exact = hn::BitCast(bits, v);
  const auto magnitude = hn::And(exact, hn::Set(bits, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 1));
  const auto rounded = hn::Add(hn::Sub(magnitude, hn::Set(bits, 112U << 23)), hn::Add(odd, hn::Set(bits, 0xfff)));
  const auto normal = hn::ShiftRight<13>(rounded);
  // The sum with 1/2 is rounded at the unit of the smallest results.
  const auto sum = hn::BitCast(bits, hn::Add(hn::BitCast(tag, magnitude), hn::Set(tag, 0.5F)));
  const auto subnormal = hn::Sub(sum, hn::Set(bits, 0x3f000000));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 113U << 23)), subnormal, normal);
  const auto infinite = hn::Set(bits, 0x7c00);
  const auto nan = hn::RebindMask(bits, hn::IsNaN(v));
  const auto large = hn::Gt(magnitude, hn::Set(bits, (143U << 23) - 1));  // 2^16 and more
  const auto result = hn::IfThenElse(nan, hn::Set(bits, 0x7e00), hn::IfThenElse(large, infinite, finite));
  const auto sign = hn::ShiftRight<16>(hn::And(exact, hn::Set(bits, 0x80000000U)));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<D>(), hn::Or(sign, result))), half, &to->bits);
}
#endif

// One element.
template <class T, class Stored>
HWY_INLINE T load_one(const Stored* from) {
  return hn::GetLane(load_as(hn::CappedTag<T, 1>(), from));
}
template <class T, class Stored>
HWY_INLINE void store_one(T value, Stored* to) {
  const hn::CappedTag<T, 1> tag;
  store_as(tag, hn::Set(tag, value), to);
}

// ---- Rows of `count` elements. A Part for count % lanes is made once for many rows.

template <class T, class Stored>
struct RowReader {
  std::int64_t count;
  const Stored* end;  // of the memory that may be read
  Part<T> part = Part<T>(count % Values<T>::lanes);

  HWY_INLINE void operator()(const Stored* from, T* to) const {
    using V = Values<T>;
    const typename V::Tag tag;
    std::int64_t i = 0;
    for (; i + V::lanes <= count; i += V::lanes) V(load_as(tag, from + i)).store(to + i);
    if (i == count) return;
    if constexpr (std::same_as<Stored, T>) {
      part.store(part.load(from + i), to + i);
    } else if (end - (from + i) >= V::lanes) {
      part.store(V(load_as(tag, from + i)), to + i);
    } else {
      for (; i < count; ++i) to[i] = load_one<T>(from + i);
    }
  }
};

template <class T, class Stored>
void convert_row(const Stored* from, const Stored* end, T* to, std::int64_t count) {
  const RowReader<T, Stored> read{count, end};
  read(from, to);
}

template <class T, class Stored>
struct RowWriter {
  std::int64_t count;
  Part<T> part = Part<T>(count % Values<T>::lanes);

  HWY_INLINE void operator()(const T* from, Stored* to) const {
    using V = Values<T>;
    const typename V::Tag tag;
    std::int64_t i = 0;
    for (; i + V::lanes <= count; i += V::lanes) store_as(tag, V::load(from + i).raw, to + i);
    if (i == count) return;
    if constexpr (std::same_as<Stored, T>) {
      part.store(part.load(from + i), to + i);
    } else if (count >= V::lanes) {
      store_as(tag, V::load(from + count - V::lanes).raw, to + count - V::lanes);
    } else {
      for (; i < count; ++i) store_one<T>(from[i], to + i);
    }
  }
};

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
