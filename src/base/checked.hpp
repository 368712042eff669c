// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that notices when it leaves 63 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace convt::core {

// The product of non-negative factors, or nothing when it passes 2^63 - 1. A zero factor does not hide an overflow of
// the others: an empty batch of impossible images is still impossible.
inline std::optional<std::int64_t> checked_product(std::span<const std::int64_t> factors) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t factor : factors) {
    if (factor == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, factor, &product))
      return std::nullopt;
  }
  return empty ? 0 : product;
}

}  // namespace convt::core
