// SPDX-License-Identifier: Apache-2.0
// Taps in closed form against the lists that phases are made of.
#include "plan/taps.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/phases.hpp"

namespace convt::core {
namespace {

void expect_same(const AxisPhases& list, const TapAxis& axis) {
  for (std::int64_t phase = 0; phase < list.stride; ++phase) {
    const PhaseTaps taps = axis.taps(phase);
    const auto found = std::find_if(list.classes.begin(), list.classes.end(),
                                    [&](const AxisClass& one) { return one.phases.front() == phase; });
    const std::vector<std::int64_t> shifts = found == list.classes.end() ? std::vector<std::int64_t>() : found->shifts;
    ASSERT_EQ(taps.count, static_cast<std::int64_t>(shifts.size()));
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::int64_t shift = shifts[static_cast<std::size_t>(i)];
      EXPECT_EQ(taps.first_shift + i * taps.shift_step, shift);
      EXPECT_EQ(taps.first + i * taps.step, list.tap(phase, shift));
    }
  }
}

TEST(Taps, ClosedFormIsTheList) {
  constexpr std::int64_t most = 10;
  for (std::int64_t kernel = 1; kernel < most; ++kernel)
    for (std::int64_t stride = 1; stride < most; ++stride)
      for (std::int64_t dilation = 1; dilation < most; ++dilation) {
        Convolution c;
        c.kernel = {1, 1, kernel};
        c.stride = {1, 1, stride};
        c.dilation = {1, 1, dilation};
        SCOPED_TRACE(testing::Message() << "kernel " << kernel << " stride " << stride << " dilation " << dilation);
        expect_same(phases_of(c, 2, false), tap_axis(kernel, stride, dilation));
      }
}

}  // namespace
}  // namespace convt::core
