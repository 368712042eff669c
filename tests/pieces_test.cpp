// SPDX-License-Identifier: Apache-2.0
#include "problem/pieces.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>

namespace convt::core {
namespace {

bool overlap_by_hand(const Pieces& a, const Pieces& b) {
  std::set<std::uint64_t> bytes;
  for (std::uint64_t i = 0; i < a.count; ++i)
    for (std::uint64_t k = 0; k < a.size; ++k) bytes.insert(a.begin + i * a.period + k);
  for (std::uint64_t i = 0; i < b.count; ++i)
    for (std::uint64_t k = 0; k < b.size; ++k)
      if (bytes.contains(b.begin + i * b.period + k)) return true;
  return false;
}

TEST(Pieces, OverlapIsExact) {
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  int both = 0, none = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto draw = [&] {
      Pieces p;
      p.begin = 1000 + below(60);
      p.count = 1 + below(6);
      p.size = 1 + below(5);
      p.period = p.size + below(12);
      return p;
    };
    const Pieces a = draw(), b = draw();
    const bool expected = overlap_by_hand(a, b);
    (expected ? both : none) += 1;
    EXPECT_EQ(overlap(a, b), expected) << a.begin << ' ' << a.size << ' ' << a.count << ' ' << a.period << " | "
                                       << b.begin << ' ' << b.size << ' ' << b.count << ' ' << b.period;
    EXPECT_EQ(overlap(b, a), expected);
  }
  EXPECT_GT(both, 2000);
  EXPECT_GT(none, 2000);
}

TEST(Pieces, LargeOnesTakeNoTime) {
  // 2^40 pieces of 12 bytes, 20 apart, and 2^39 of 8 in their gaps; the last of these one byte too long.
  const std::uint64_t begin = std::uint64_t{1} << 46, many = std::uint64_t{1} << 39;
  EXPECT_FALSE(overlap({begin, 12, 2 * many, 20}, {begin + 12, 8, many, 40}));
  EXPECT_TRUE(overlap({begin, 12, 2 * many, 20}, {begin + 12, 9, many, 40}));
  EXPECT_TRUE(overlap({begin, 12, 2 * many, 20}, {begin + 11, 8, 1, 8}));
  // Of periods without a common divisor, some pair always meets.
  EXPECT_TRUE(overlap({begin, 1, many, 1'000'003}, {begin + 5, 1, many, 1'000'033}));
  EXPECT_FALSE(overlap({begin, 1, many, 1'000'002}, {begin + 5, 1, many, 1'000'034}));
}

}  // namespace
}  // namespace convt::core
