// SPDX-License-Identifier: Apache-2.0
// Which results kernels of short chains can store: others take memory that no test has.
#include <gtest/gtest.h>

#include "cuda/chain/bind.hpp"
#include "cuda/sm90/host/convolver.hpp"

namespace convt::core::cuda::sm90 {
namespace {

bool near(convt_layout layout, std::int64_t channels, const Axes& space, const Axes& phases) {
  return has_near_results(strides_of(layout, {3, 1, channels, space}), phases);
}

TEST(Results, AreNearUpTo32Bits) {
  constexpr auto first = CONVT_CHANNELS_FIRST, last = CONVT_CHANNELS_LAST;
  EXPECT_TRUE(near(first, 64, {32, 64, 64}, {2, 2, 2}));
  EXPECT_TRUE(near(last, 64, {32, 64, 64}, {2, 2, 2}));
  // A channel of 2^32 - 2^16 elements, and of 2^32.
  EXPECT_TRUE(near(first, 2, {65535, 256, 256}, {1, 1, 1}));
  EXPECT_FALSE(near(first, 2, {65536, 256, 256}, {1, 1, 1}));
  // Planes, rows and positions, which are phases apart.
  EXPECT_TRUE(near(first, 1, {1, 32768, 65535}, {1, 1, 1}));
  EXPECT_TRUE(near(last, 64, {2, 8192, 8191}, {1, 1, 1}));
  EXPECT_FALSE(near(last, 64, {2, 8192, 8192}, {1, 1, 1}));
  EXPECT_FALSE(near(last, 64, {2, 4096, 8192}, {2, 1, 1}));
  EXPECT_FALSE(near(last, 64, {1, 2, 1 << 24}, {1, 4, 1}));
  EXPECT_FALSE(near(last, 1 << 28, {1, 1, 2}, {1, 1, 2}));
}

}  // namespace
}  // namespace convt::core::cuda::sm90
