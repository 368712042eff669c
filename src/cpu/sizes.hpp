// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes of buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.hpp"
#include "base/division.hpp"

namespace convt::core::cpu {

inline std::int64_t as_index(std::size_t value) { return static_cast<std::int64_t>(value); }

// At least `size` elements, an odd number of cache lines: rows that far apart do not meet in one set of a cache.
// Capped.
template <class T>
std::int64_t odd_lines(std::int64_t size) {
  constexpr auto each = static_cast<std::int64_t>(64 / sizeof(T));
  return capped_product({ceil_div(size, each) | 1, each});
}

}  // namespace convt::core::cpu
