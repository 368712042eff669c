// SPDX-License-Identifier: Apache-2.0
// Norms over space on the model of the hardware, behind the convolutions of both engines: regions of rows, planes and
// images, that lanes, blocks and several blocks normalise.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cuda/chain/span.hpp"
#include "hopper_model/cases.hpp"

namespace convt::testing {
namespace {

// Rows and planes that divide by 16 bytes and that do not; regions of one channel and of several, in one chunk of 60
// KiB and in many, more of them than there are blocks; steps with values by channel, by element and by neither; a
// second norm; results that are channels-last, of other sizes, and a range of a wider tensor's channels.
const std::vector<std::string> shapes = {
    "1d channels=3->5 input=7 kernel=3 | instance_norm",
    "1d channels=3->5 input=15357 kernel=3 | softplus | instance_norm",  // 15360 and 30720 elements are a chunk
    "1d channels=3->5 input=30715 kernel=3 | softplus | instance_norm",
    "1d batch=3 channels=3->4 input=41 kernel=4 stride=4 | bias | group_norm(2, affine) | snake",
    "2d batch=2 channels=8->8 input=9x9 kernel=3 stride=2 | instance_norm | leaky_relu",
    "2d batch=3 channels=8->12 input=16x32 kernel=3 stride=2 padding=1 output_padding=1 | bias | silu | "
    "group_norm(4, affine) | gelu | add(tensor) | mul(channel) | prelu",
    "2d batch=2 channels=8->6 input=47x53 kernel=3 stride=2 | instance_norm(affine, dtype=f32) | tanh | mul(0.5)",
    "2d batch=3 channels=4->4 input=96x97 kernel=2 stride=2 | relu | instance_norm | relu",
    "2d batch=2 channels=4->8 input=80x80 kernel=2 stride=2 | group_norm(2) | bias | relu",
    "3d batch=2 channels=8->6 input=5x7x8 kernel=3 | bias | layer_norm(trailing=1, affine) | gelu",
    "3d batch=2 channels=8->6 input=5x7x10 kernel=3 | bias | layer_norm(trailing=1) | mul(channel)",
    "3d channels=8->6 input=5x7x8 kernel=3 stride=2 | layer_norm(trailing=2, affine, dtype=f32) | add(tensor)",
    "3d channels=8->6 input=5x7x8 kernel=3 stride=2 | layer_norm(trailing=3, affine) | sigmoid",
    "3d batch=2 channels=8->6 input=5x7x9 kernel=3 | layer_norm(trailing=4, affine) | bias",
    "2d batch=2 channels=8->8 input=20x20 kernel=2 stride=2 layout=channels_last | group_norm(2) | relu",
    "2d batch=2 channels=8->8 input=20x21 kernel=2 stride=2 | relu | instance_norm | tanh | group_norm(4, affine)",
    "2d batch=2 channels=8->8 input=20x21 kernel=2 stride=2 | instance_norm | relu | max_pool(2) | instance_norm",
    "2d batch=2 channels=4->6 input=9x13 kernel=3 | instance_norm(affine) | avg_pool(2) | softplus",
    "1d batch=3 channels=4->6 input=9 kernel=4 stride=2 | layer_norm(trailing=1, affine) | max_pool(5) | relu",
    "2d channels=8->8 input=12x12 kernel=2 stride=2 | group_norm(8) | layer_norm(channels) | silu",
    "2d channels=8->8 input=12x12 kernel=2 stride=2 | instance_norm | add(conv) | relu",
    "2d channels=8->8 input=12x12 kernel=2 stride=2 | keep(a) | instance_norm | relu | add(a)",
    "2d batch=2 channels=8->8 within=0->12 input=12x12 kernel=2 stride=2 | instance_norm | relu",
    "2d channels=8->40 input=1x2 kernel=1 | group_norm(8) | relu",
    "2d batch=2 channels=8->8 input=20x20 kernel=2 stride=2 | global_avg_pool | group_norm(2) | sigmoid",
    // Slots that two channels share, with constants by channel: in lanes, in a block, in chunks, in tiny planes.
    "2d batch=2 channels=8->8 input=9x11 kernel=3 stride=2 | group_norm(2, affine) | silu",
    "2d batch=2 channels=4->8 input=17x19 kernel=3 stride=2 | group_norm(2, affine) | leaky_relu(0.2)",
    "2d channels=4->4 input=61x67 kernel=3 stride=2 | group_norm(1, affine) | hardswish | add(tensor)",
    "2d channels=4->4 input=61x67 kernel=3 stride=2 | group_norm(1, affine)",
    "2d channels=8->40 input=1x2 kernel=1 | group_norm(8, affine) | add(tensor) | silu",
    // Images and results that begin at any address; ops that are called; second operands that are not linear.
    "2d batch=3 channels=4->3 within=0->5 input=7x7 kernel=3 stride=2 | group_norm(1, affine) | tanh",
    "2d batch=3 channels=4->3 within=0->5 input=7x7 kernel=3 stride=2 | instance_norm(affine) | gelu",
    "2d batch=2 channels=4->6 input=13x15 kernel=3 stride=2 | instance_norm | softsign | mul(0.5)",
    "2d batch=2 channels=4->6 input=13x15 kernel=3 stride=2 | group_norm(2) | mish | prelu | logsigmoid",
    "3d channels=8->6 input=5x7x9 kernel=3 stride=2 | layer_norm(trailing=4, affine) | silu | mul(channel)",
};

class NormsOverSpace : public ::testing::TestWithParam<std::string> {};

TEST_P(NormsOverSpace, AgreeWithTheReference) {
  std::uint64_t seed = 0;
  for (const std::string& mode : modes) {
    const std::string text = in_mode(GetParam(), mode);
    ++seed;
    EXPECT_EQ(defect_of(text, seed, nullptr, {seed % 2 == 0}), "") << text << ", seed " << seed;
    EXPECT_EQ(engine_defect_of("cuda-generic", text, seed), "") << text << ", seed " << seed;
  }
  const std::string text = in_mode(GetParam(), "dtype=f64");
  EXPECT_EQ(engine_defect_of("cuda-generic", text, 1), "") << text;
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormsOverSpace, ::testing::ValuesIn(shapes));

TEST(NormsOverSpace, HoldWhereSumsOfSquaresPassTheRange) {
  const std::string text =
      "conv_transpose2d dtype=f32 channels=1->1 input=400x400 kernel=1 | mul(5e17) | relu | instance_norm";
  EXPECT_EQ(engine_defect_of("cuda-generic", text, 3), "");
}

// A factor of the norm and a constant after it, whose product passes the range.
TEST(NormsOverSpace, HoldWhereConstantsPassTheRangeTogether) {
  const std::string text =
      "conv_transpose2d dtype=f32 channels=2->2 input=20x20 kernel=1 | mul(1e-5) | relu | instance_norm(eps=1e-12) | "
      "mul(1e35) | relu";
  EXPECT_EQ(engine_defect_of("cuda-generic", text, 3), "");
}

TEST(FastDivisors, DivideExactly) {
  constexpr int most = std::numeric_limits<int>::max();
  for (const int by : {1, 2, 3, 5, 7, 63, 64, 65, 641, 65535, 65537, 1 << 29, (1 << 30) + 1, most}) {
    const core::cuda::FastDivisor divisor(by);
    for (const int x :
         {0, 1, 2, 6, 4095, by - 1, by, by / 2 * 2 + 1, most / by * by - 1, most / by * by, most - 1, most})
      EXPECT_EQ(divisor.quotient(x, by), x / by) << x << " / " << by;
  }
}

}  // namespace
}  // namespace convt::testing
