// SPDX-License-Identifier: Apache-2.0
// Element types: their sizes, names and exact conversions.
#pragma once

#include <algorithm>
#include <array>
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

  // Round to nearest, ties to even, in one step from the double. Scaling by the unit of the result's binade is exact,
  // so nearbyint() in the default rounding mode does the only rounding.
  static std::uint16_t encode(double value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | infinity | quiet;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | infinity;
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias);  // subnormals share the smallest exponent
    const auto units = static_cast<std::int64_t>(std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
    // `units` counts units of 2^(exponent - fraction_bits); adding it to the exponent field minus its hidden bit
    // carries into the next binade, from subnormal to normal, and from the largest value to infinity.
    const std::int64_t field = static_cast<std::int64_t>(exponent + bias - 1) << fraction_bits;
    const std::int64_t bits = field + units;
    return static_cast<std::uint16_t>(sign | (bits >= infinity ? infinity : bits));
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
