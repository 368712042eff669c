// SPDX-License-Identifier: Apache-2.0
// One element as the type computed in, exactly.
#pragma once

#include <bit>
#include <cstdint>

#include "convt/convt.h"

namespace convt::core::cpu {

template <class T>
T to_real(double value) {
  return static_cast<T>(value);
}
template <class T>
T to_real(float value) {
  return static_cast<T>(value);
}
template <class T>
T to_real(convt_bf16 value) {
  return static_cast<T>(std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16));
}
template <class T>
T to_real(convt_f16 value) {
  const std::uint32_t magnitude = value.bits & 0x7fffU, sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  // As a float's exponent and fraction, f16's are off by the difference of the biases, 112; a product with 2^112 makes
  // subnormals normal too.
  constexpr float two_to_112 = 5192296858534827628530496329220096.0F;
  float result = std::bit_cast<float>(magnitude << 13) * two_to_112;
  if (magnitude >= 0x7c00U) result = std::bit_cast<float>(magnitude << 13 | 0x7f800000U);  // Inf and NaN
  return static_cast<T>(std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) | sign));
}

}  // namespace convt::core::cpu
