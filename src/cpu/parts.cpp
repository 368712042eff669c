// SPDX-License-Identifier: Apache-2.0
#include "cpu/parts.hpp"

#include <algorithm>

namespace convt::core::cpu {
namespace {

// With 24 vectors to add to memory behind about so many steps of 12 cycles, 1 % of the time.
constexpr std::int64_t part_depth = 256;

// `count` pieces of `size`, cut evenly into parts of about part_depth.
std::int64_t part_count(std::int64_t count, std::int64_t size) {
  return std::clamp<std::int64_t>((count * size + part_depth / 2) / part_depth, 1, std::max<std::int64_t>(count, 1));
}

}  // namespace

std::vector<Interval> sum_parts(std::int64_t channels, std::int64_t taps) {
  const bool within = taps > part_depth;
  const std::int64_t wholes = within ? channels : 1, pieces = within ? taps : channels, size = within ? 1 : taps;
  const std::int64_t parts = part_count(pieces, size);
  std::vector<Interval> all;
  for (std::int64_t whole = 0; whole < wholes; ++whole)
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t before = whole * pieces;
      all.push_back({(before + pieces * p / parts) * size, (before + pieces * (p + 1) / parts) * size});
    }
  return all;
}

}  // namespace convt::core::cpu
