// SPDX-License-Identifier: Apache-2.0
// 16-bit elements: every bit pattern, and rounding at and around every midpoint.
#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace convt::core {
namespace {

template <class Format>
void every_pattern_survives() {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double value = Format::decode(static_cast<std::uint16_t>(bits));
    const bool nan = (bits & Format::infinity) == Format::infinity && (bits & ~0x8000U) != Format::infinity;
    ASSERT_EQ(std::isnan(value), nan) << bits;
    if (nan)
      EXPECT_TRUE(std::isnan(Format::decode(Format::encode(value))));
    else
      ASSERT_EQ(Format::encode(value), bits);
  }
}

// Between neighbours a < b: below the middle to a, above it to b, at it to the one with an even last bit.
template <class Format>
void midpoints_round_to_even() {
  for (unsigned bits = 0; bits + 1 <= Format::infinity; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const double a = Format::decode(low);
    // The step to infinity is as wide as the last finite one.
    const double b = high == Format::infinity ? a + (a - Format::decode(static_cast<std::uint16_t>(bits - 1)))
                                              : Format::decode(high);
    const double middle = (a + b) / 2;
    for (const int sign : {0, 0x8000}) {
      const double s = sign == 0 ? 1 : -1;
      ASSERT_EQ(Format::encode(s * middle), sign | ((bits & 1) == 0 ? low : high)) << bits;
      ASSERT_EQ(Format::encode(s * std::nextafter(middle, 0)), sign | low) << bits;
      ASSERT_EQ(Format::encode(s * std::nextafter(middle, 1e300)), sign | high) << bits;
    }
  }
}

TEST(Dtype, F16Patterns) { every_pattern_survives<Half>(); }
TEST(Dtype, BF16Patterns) { every_pattern_survives<Brain>(); }
TEST(Dtype, F16Rounding) { midpoints_round_to_even<Half>(); }
TEST(Dtype, BF16Rounding) { midpoints_round_to_even<Brain>(); }

TEST(Dtype, KnownValues) {
  EXPECT_EQ(Half::encode(1.0), 0x3C00);
  EXPECT_EQ(Half::encode(-2.0), 0xC000);
  EXPECT_EQ(Half::encode(65504.0), 0x7BFF);
  EXPECT_EQ(Half::encode(65520.0), 0x7C00);
  EXPECT_EQ(Half::encode(0x1p-24), 0x0001);
  EXPECT_EQ(Half::encode(0x1p-25), 0x0000);
  EXPECT_EQ(Half::encode(1e308), 0x7C00);
  EXPECT_EQ(Brain::encode(1.0), 0x3F80);
  EXPECT_EQ(Brain::encode(3.14159265), 0x4049);
  EXPECT_EQ(Brain::encode(1e-300), 0x0000);
}

}  // namespace
}  // namespace convt::core
