// SPDX-License-Identifier: Apache-2.0
// Element types: their sizes, names and exact conversions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "convt/convt.h"

namespace convt::core {

// One row per element type; position = convt_dtype.
struct DtypeRow {
  std::string_view name;
  std::size_t size;
};
inline constexpr std::array<DtypeRow, 4> dtype_table{{{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}}};

constexpr bool is_dtype(convt_dtype dtype) { return static_cast<unsigned>(dtype) < dtype_table.size(); }
constexpr std::string_view name_of(convt_dtype dtype) { return dtype_table[static_cast<std::size_t>(dtype)].name; }
constexpr std::size_t size_of(convt_dtype dtype) { return dtype_table[static_cast<std::size_t>(dtype)].size; }

// A 16-bit binary float of 1 sign, `exponent_bits` and `fraction_bits` bits, IEEE rules.
template <int exponent_bits, int fraction_bits>
struct Small {
  static_assert(1 + exponent_bits + fraction_bits == 16);
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity = ((1 << exponent_bits) - 1) << fraction_bits;
  static constexpr std::uint16_t quiet = 1 << (fraction_bits - 1);

  // Round to nearest, ties to even, in one step from the double's bits: whatever the floating-point environment is, and
  // without a trace in it.
  static constexpr std::uint16_t encode(double value) {
    constexpr int double_fraction = 52, double_bias = 1023;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000U);
    const auto biased = static_cast<int>(bits >> double_fraction & 0x7ffU);
    std::uint64_t fraction = bits & ((std::uint64_t{1} << double_fraction) - 1);
    if (biased == 0x7ff) return static_cast<std::uint16_t>(sign | infinity | (fraction != 0 ? quiet : 0));
    if (biased == 0) return sign;  // a subnormal double is less than half of the smallest result
    fraction |= std::uint64_t{1} << double_fraction;
    const int exponent = std::max(biased - double_bias, 1 - bias);  // subnormals share the smallest exponent
    if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);
    // Units of 2^(exponent - fraction_bits): the fraction without its last `drop` bits.
    const int drop = double_fraction - fraction_bits + exponent - (biased - double_bias);
    if (drop > double_fraction + 1) return sign;
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    const std::uint64_t kept = fraction >> drop, rest = fraction & (2 * half - 1);
    const std::uint64_t units = kept + (rest > half || (rest == half && (kept & 1U) != 0) ? 1 : 0);
    // Added to the exponent field minus its hidden bit, they carry into the next binade, from subnormal to normal, and
    // from the largest value to infinity.
    const std::uint64_t field = static_cast<std::uint64_t>(exponent + bias - 1) << fraction_bits;
    return static_cast<std::uint16_t>(sign | (field + units));
  }

  static double decode(std::uint16_t bits) {
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = (bits & infinity) >> fraction_bits;
    double magnitude;
    if (exponent == (1 << exponent_bits) - 1)
      magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    else if (exponent == 0)
      magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
    else
      magnitude = std::ldexp(fraction | (1 << fraction_bits), exponent - bias - fraction_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};
using Half = Small<5, 10>;
using Brain = Small<8, 7>;

inline double to_double(double value) { return value; }
inline double to_double(float value) { return static_cast<double>(value); }
inline double to_double(convt_f16 value) { return Half::decode(value.bits); }
inline double to_double(convt_bf16 value) { return Brain::decode(value.bits); }

template <class T>
T from_double(double value) {
  return static_cast<T>(value);
}
template <>
inline convt_f16 from_double<convt_f16>(double value) {
  return {Half::encode(value)};
}
template <>
inline convt_bf16 from_double<convt_bf16>(double value) {
  return {Brain::encode(value)};
}

// Calls f with a null pointer to the element type: visit_dtype(dtype, [&]<class T>(T*) { ... }).
template <class F>
decltype(auto) visit_dtype(convt_dtype dtype, F&& f) {
  switch (dtype) {
    case CONVT_F64:
      return f(static_cast<double*>(nullptr));
    case CONVT_F16:
      return f(static_cast<convt_f16*>(nullptr));
    case CONVT_BF16:
      return f(static_cast<convt_bf16*>(nullptr));
    case CONVT_F32:
      break;
  }
  return f(static_cast<float*>(nullptr));
}

}  // namespace convt::core
