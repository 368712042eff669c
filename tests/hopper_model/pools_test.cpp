// SPDX-License-Identifier: Apache-2.0
// Pools and folds over space on the model of the hardware, behind the convolutions of both engines: small windows,
// large ones and whole images, with steps before and behind them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hopper_model/cases.hpp"

namespace convt::testing {
namespace {

// Windows that overlap, touch and leave gaps; padding and ceil, whatever is counted; columns of results that divide by
// four and that do not; windows that threads, warps and blocks fold, of rows that follow each other and that do not;
// gates; what pools see rounded, and not.
const std::vector<std::string> shapes = {
    "1d batch=2 channels=3->5 input=17 kernel=3 | bias | max_pool(3, stride=2, padding=1) | relu",
    "2d batch=2 channels=8->8 input=9x13 kernel=3 stride=2 padding=1 | bias | max_pool(3, stride=2, padding=1) | silu",
    "2d batch=2 channels=8->5 input=9x13 kernel=3 stride=2 | relu | max_pool(3, stride=1) | bias | mul(channel)",
    "2d batch=2 channels=8->5 input=12x13 kernel=3 | tanh | avg_pool(2) | add(tensor) | gelu",
    "2d channels=8->5 input=12x13 kernel=3 | tanh | avg_pool(3, stride=2, padding=1, ceil) | prelu",
    "2d channels=8->5 input=12x13 kernel=3 | silu | avg_pool(3, stride=2, padding=1, count_include_pad=false)",
    "2d channels=8->5 input=12x13 kernel=3 | relu | max_pool(2, stride=3) | max_pool(2) | sigmoid",
    "2d channels=8->5 input=12x13 kernel=3 | relu | min_pool(5, stride=1) | instance_norm | relu",
    "2d channels=8->5 input=12x13 kernel=3 | relu | sum_pool(7x3, stride=2x5) | bias",
    "2d channels=8->6 input=12x13 kernel=3 layout=channels_last | relu | max_pool(3, stride=2, padding=1) | tanh",
    "3d channels=8->6 input=4x5x9 kernel=3 stride=2 | bias | max_pool(3, stride=2, padding=1) | leaky_relu",
    "3d channels=8->6 input=4x5x9 kernel=3 stride=2 | mish | avg_pool(3, stride=1) | layer_norm(channels) | mul(2)",
    "3d batch=2 channels=8->6 input=4x5x9 kernel=3 stride=2 | relu | max_pool(2x3x5) | sum",
    "2d channels=4->6 input=19x40 kernel=3 | relu | avg_pool(13x16, stride=4x7) | bias | tanh",
    "2d channels=4->6 input=19x40 kernel=3 | relu | avg_pool(20x42, stride=1) | softmax",
    "2d channels=4->3 input=55x60 kernel=2 stride=2 | relu | max_pool(70x60, stride=9) | mul(3)",
    "2d batch=2 channels=8->6 input=9x9 kernel=3 stride=2 | relu | global_avg_pool | sigmoid",
    "2d batch=2 channels=8->6 input=9x9 kernel=3 stride=2 | bias | keep(a) | mean(axes=hw) | sigmoid | mul(a)",
    "2d batch=2 channels=8->6 input=50x51 kernel=2 stride=2 | silu | keep(a) | mean(axes=hw) | relu | mul(a) | bias",
    "2d batch=2 channels=8->6 input=50x51 kernel=2 stride=2 | keep(a) | max(axes=hw) | softmax | mul(a)",
    "2d channels=8->6 input=20x9 kernel=2 stride=2 | keep(a) | mean(axes=w) | sigmoid | mul(a)",
    "2d channels=8->6 input=20x9 kernel=2 stride=2 | relu | mean(axes=h) | add(1)",
    "3d channels=8->6 input=6x5x9 kernel=2 stride=2 | softmax(axes=dhw) | mul(2)",
    "2d channels=8->6 input=20x9 kernel=2 stride=2 | softmax(axes=hw) | bias",
    "2d channels=8->6 input=20x9 kernel=2 stride=2 | logsumexp(axes=hw) | tanh",
    "2d channels=8->6 input=20x9 kernel=2 stride=2 | mul(1e6) | logsumexp(axes=chw) | mul(1e-4)",  // past f16's range
    "2d channels=8->64 input=20x9 kernel=2 stride=2 | relu | mul(3e4) | sum(axes=chw) | mul(1e-6)",
};

class PoolsOfSlabs : public ::testing::TestWithParam<std::string> {};

TEST_P(PoolsOfSlabs, AgreeWithTheReference) {
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

INSTANTIATE_TEST_SUITE_P(Shapes, PoolsOfSlabs, ::testing::ValuesIn(shapes));

}  // namespace
}  // namespace convt::testing
