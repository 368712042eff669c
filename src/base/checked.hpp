// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that notices when it leaves 63 bits. Two ways: checked, where a size past them has no meaning,
// and capped, where it is compared with a limit afterwards.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
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

inline constexpr std::int64_t most_size = std::numeric_limits<std::int64_t>::max();

// Products and sums of non-negative sizes that stop at 2^63 - 1: whatever they are, comparing them with a smaller limit
// gives the right answer.
constexpr std::int64_t capped_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product)) product = most_size;
  return product;
}
constexpr std::int64_t capped_sum(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms)
    if (__builtin_add_overflow(sum, term, &sum)) sum = most_size;
  return sum;
}

}  // namespace convt::core
