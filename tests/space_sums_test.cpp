// SPDX-License-Identifier: Apache-2.0
// The algebra of sums over space, which engines share.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plan/sums.hpp"
#include "problem/problem.hpp"

namespace convt::core {
namespace {

constexpr const char* plain = "conv_transpose2d dtype=f64 channels=4->6 input=5 kernel=3 stride=2 padding=1";

Program program_of(const std::string& text) {
  return rewrite(std::make_shared<const Descriptor>(validate(parse_problem(text))));
}

std::vector<std::string> steps_of(const Program& program) {
  std::vector<std::string> all;
  for (const Step& step : program.steps) all.push_back(print(step));
  return all;
}

// Each tap's cells are the inputs that it takes to the output, by definition.
TEST(SpaceSums, ConsistOfBoxes) {
  Convolution c =
      program_of("conv_transpose1d dtype=f64 channels=1->1 input=9 kernel=5 stride=2 padding=3").convolution;
  const CellAxis axis = cells_of(c, 2);
  for (std::int64_t tap = 0; tap < 5; ++tap)
    for (std::int64_t i = 0; i < 9; ++i) {
      const std::int64_t out = i * 2 - 3 + tap;
      const Interval& cells = axis.taps[static_cast<std::size_t>(tap)];
      const bool inside = cells.size() > 0 && i >= axis.ends[static_cast<std::size_t>(cells.begin)] &&
                          i < axis.ends[static_cast<std::size_t>(cells.end)];
      EXPECT_EQ(inside, out >= 0 && out < c.output[2]) << tap << " " << i;
    }
}

// Which programs have such a sum, and what is left of them.
TEST(SpaceSums, LeaveTheOtherSteps) {
  const auto sum_of = [](const std::string& chain) { return sum_over_space(program_of(plain + (" | " + chain))); };
  EXPECT_EQ(steps_of(*sum_of("bias | global_avg_pool | relu").program), (std::vector<std::string>{"bias", "relu"}));
  EXPECT_EQ(sum_of("mul(2) | sum(axes=hw)").factor, 1);
  EXPECT_EQ(steps_of(*sum_of("bias | sum(axes=hw)").program), (std::vector<std::string>{"bias", "mul(81)"}));
  EXPECT_EQ(sum_of("bias | sum(axes=hw)").factor, 1.0 / 81);
  EXPECT_EQ(sum_of("relu | global_avg_pool").rejection, "relu before the sum over space is not linear");
  EXPECT_EQ(sum_of("bias | relu").program, nullptr);
}

}  // namespace
}  // namespace convt::core
