// SPDX-License-Identifier: Apache-2.0
// Ops before the convolution, and ranges of channels, on both engines for GPUs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "check.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/machine.hpp"

namespace convt::testing {
namespace {

// Of 0 most of these make something else: zeros outside the image, at every border and between inputs, must stay.
const std::vector<std::string> prologues = {"add(1)", "batch_norm(affine) | leaky_relu(0.1)",
                                            "prelu(0.25) | prelu | sigmoid", "bias | gelu | mul(channel, dtype=f32)"};
const std::vector<std::string> shapes = {
    "1d batch=3 channels=20->40 input=30 kernel=9 stride=4 padding=2 | bias | silu",
    "2d channels=16->8 input=8x8 kernel=1 stride=3 output_padding=2",
    "2d batch=2 channels=48->24 input=9x11 kernel=3",
    "2d channels=16->24 input=9x11 kernel=3x2 padding=1x0 layout=channels_last | layer_norm(channels)",
    "3d batch=2 channels=16->64 input=3x5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "2d batch=2 channels=33->20 input=9x10 kernel=2 stride=2 | instance_norm | relu",
};

std::string defect_on(const std::string& engine, const std::string& text, std::uint64_t seed) {
  hopper_model::set_schedule({seed % 2 == 0, seed});
  const cli::CaseReport report = cli::check_case(text, seed, {.device = Device::cuda, .engine = engine});
  return report.engine == engine ? report.defect : "it ran on " + report.engine;
}

class HopperModelPrologues : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Engines, HopperModelPrologues, ::testing::Values("cuda-sm90", "cuda-generic"),
                         [](const auto& info) { return info.param == "cuda-sm90" ? "sm90" : "generic"; });

TEST_P(HopperModelPrologues, AgreeWithTheReference) {
  std::uint64_t seed = 0;
  for (const std::string& shape : shapes)
    for (const std::string& prologue : prologues) {
      const std::string text = prologue + " | " + in_mode(shape, modes[seed % 3]);
      EXPECT_EQ(defect_on(GetParam(), text, seed), "") << text << ", seed " << seed;
      ++seed;
    }
}

// Offsets and distances that no multiple of 16 bytes are; every layout; one range and both.
TEST_P(HopperModelPrologues, RangesOfChannels) {
  std::uint64_t seed = 0;
  for (const std::string& shape : shapes)
    for (const std::string more : {" within=W->64", " within=0->67", " within=W->71 layout=channels_last",
                                   " within=W->65 layout=channels_last->channels_first"}) {
      std::string text = in_mode(shape, modes[seed % 3]);
      const std::size_t at = text.find(" channels=") + 10;
      const std::size_t channels = std::stoul(text.substr(at));
      std::string fields = more;
      if (const std::size_t wide = fields.find('W'); wide != std::string::npos)
        fields.replace(wide, 1, std::to_string(channels + 3 + seed % 5));
      if (text.find(" layout=") != std::string::npos) fields = fields.substr(0, fields.find(" layout"));
      text.insert(text.find(' ', at), fields);
      if (seed % 3 == 0) text = "add(0.5) | relu | " + text;
      EXPECT_EQ(defect_on(GetParam(), text, seed), "") << text << ", seed " << seed;
      ++seed;
    }
}

// More steps than one launch takes, a tensor beside a range, and slabs of single images.
TEST_P(HopperModelPrologues, UnusualOnes) {
  std::string many = "tanh";
  for (int i = 0; i < 60; ++i) many += i % 2 == 0 ? " | relu" : " | bias";
  const std::string head =
      "conv_transpose2d dtype=f16 batch=3 channels=16->24 within=17->30 input=7x9 kernel=3 stride=2";
  EXPECT_EQ(defect_on(GetParam(), many + " | " + head, 2), "");
  EXPECT_EQ(defect_on(GetParam(), "sigmoid | " + head + " | add(tensor) | relu", 2), "");
  const PlanOptions options{.device = Device::cuda, .engine = GetParam()};
  const std::size_t most = Plan::from_text("sigmoid | " + head, options).workspace_size();
  PlanOptions less = options;
  less.workspace_limit = most - 1;
  const Plan plan = Plan::from_text("sigmoid | " + head, less);
  EXPECT_LT(plan.workspace_size(), most);
  EXPECT_EQ(cli::check_case("sigmoid | " + head, 2, less).defect, "");
}

TEST(HopperModelExplains, PrologueAndCopy) {
  const std::string prologue =
      Plan::from_text("sigmoid | conv_transpose2d dtype=f16 channels=16->24 input=9 kernel=3", {.device = Device::cuda})
          .explain();
  EXPECT_NE(prologue.find("input + sigmoid -> memory, in a pass of its own: prologue rounded to f16"),
            std::string::npos)
      << prologue;
  const std::string range = Plan::from_text("conv_transpose2d dtype=f16 channels=16->24 within=20->24 input=9 kernel=3",
                                            {.device = Device::cuda})
                                .explain();
  EXPECT_NE(range.find("a dense copy"), std::string::npos) << range;
}

}  // namespace
}  // namespace convt::testing
