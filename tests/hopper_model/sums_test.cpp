// SPDX-License-Identifier: Apache-2.0
// Sums and averages over space that move into the kernel, on the model of the hardware.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hopper_model/cases.hpp"

namespace convt::testing {
namespace {

// Boxes that are the whole input and that are not, empty ones, strides and dilations; rows that divide by 16 bytes and
// that do not, and are longer than a block; groups, more images than go together, ranges, steps behind and before.
const std::vector<std::string> shapes = {
    "1d batch=5 channels=3->5 input=7 kernel=3 | global_avg_pool",
    "2d batch=2 channels=8->8 input=8x16 kernel=3 stride=2 padding=1 output_padding=1 | bias | global_avg_pool | relu",
    "2d batch=9 channels=6->4 input=9x13 kernel=3x5 padding=1x2 groups=2 | batch_norm(affine) | mean(axes=hw) | "
    "softmax",
    "2d channels=3->4 input=5x6 kernel=4 stride=3 padding=3 dilation=2x1 | global_avg_pool | bias | sigmoid",
    "2d channels=3->4 input=3x3 kernel=3 padding=1x2 dilation=1x2 output_padding=0x1 | sum(axes=hw) | mul(0.5)",
    "2d channels=2->3 input=3x2100 kernel=3 stride=1x2 | global_avg_pool | add(tensor)",
    "3d batch=2 channels=4->6 input=4x5x16 kernel=3 stride=2 padding=1 | bias | mul(2) | global_avg_pool | logsumexp",
    "3d batch=2 channels=4->6 within=7->9 input=4x5x16 kernel=3 stride=2 padding=1 | global_avg_pool | tanh",
    "2d batch=2 channels=4->6 input=9x10 kernel=2 stride=2 | global_avg_pool | keep(a) | sigmoid | mul(a)",
    "2d batch=2 channels=4->6 input=9x10 kernel=3 stride=2 | bias | sum(axes=hw) | tanh",
    "2d batch=2 channels=4->6 input=9x10 kernel=3 stride=2 | mul(channel) | mean | global_avg_pool",
};

class SumsOfBoxes : public ::testing::TestWithParam<std::string> {};

TEST_P(SumsOfBoxes, AgreeWithTheReference) {
  std::uint64_t seed = 0;
  for (const std::string mode : {"dtype=f32", "dtype=f16", "dtype=bf16", "dtype=f64"})
    for (int i = 0; i < 3; ++i) {
      const std::string text = in_mode(GetParam(), mode);
      EXPECT_EQ(engine_defect_of("cuda-sums", text, ++seed), "") << text << ", seed " << seed;
    }
  const std::string prologue = "conv_transpose" + GetParam().substr(0, 2) + " dtype=bf16" + GetParam().substr(2);
  EXPECT_EQ(engine_defect_of("cuda-sums", "leaky_relu(0.1) | " + prologue, 1), "") << prologue;
}

INSTANTIATE_TEST_SUITE_P(Shapes, SumsOfBoxes, ::testing::ValuesIn(shapes));

}  // namespace
}  // namespace convt::testing
