// SPDX-License-Identifier: Apache-2.0
// What plans choose among, on the model of the hardware: every candidate can be forced and is right, predictions follow
// the tile that runs, and kernels are changed only if that is predicted to be faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/machine.hpp"
#include "support/environment.hpp"

namespace convt::testing {
namespace {

const std::string f32 = "dtype=f32", tf32 = "dtype=f32 precision=tf32", bf16 = "dtype=bf16", f64 = "dtype=f64";

std::string explained(const std::string& text, const PlanOptions& options = {.device = Device::cuda}) {
  return Plan::from_text(text, options).explain();
}
bool says(const std::string& explanation, const std::string& what) {
  return explanation.find(what) != std::string::npos;
}

// Chains of each kind: alone, a register epilogue, a program, a strip, a folded pool and others, norms over space,
// which are stored or recomputed, sums that move into the kernel and that do not.
const std::vector<std::string> shapes = {
    "2d channels=16->24 input=5x18 kernel=3 stride=2 | bias | gelu",
    "2d batch=2 channels=20->64 input=12x16 kernel=3 | bias | tanh | add(tensor)",
    "3d channels=8->24 input=3x5x17 kernel=3x2x2 padding=1 | softmax | mul(conv)",
    "2d channels=16->32 input=5x16 kernel=2 stride=2 | max_pool(2) | bias",
    "2d batch=2 channels=8->12 input=6x9 kernel=3 stride=2 | relu | max_pool(3, stride=2) | instance_norm | silu",
    "2d batch=2 channels=16->24 input=5x9 kernel=3 stride=2 | bias | sum | sigmoid",
    "2d channels=16->24 input=6x9 kernel=3 stride=2 padding=1 | bias | avg_pool(2) | relu",
};

class Candidates : public ::testing::TestWithParam<std::string> {};

TEST_P(Candidates, AreForcedByNameAndAgreeWithTheReference) {
  std::uint64_t seed = 0;
  for (const std::string& mode : {f32, tf32, bf16, f64}) {
    const std::string text = in_mode(GetParam(), mode);
    const std::vector<std::string> names = candidates_of(text);
    EXPECT_FALSE(names.empty()) << text;
    for (const std::string& name : names) {
      EXPECT_EQ(std::ranges::count(names, name), 1) << text << ", " << name;
      const std::string engine = name.substr(0, name.find(' '));
      const Plan plan = Plan::from_text(text, {.device = Device::cuda, .engine = name});
      EXPECT_EQ(plan.engine(), engine) << text;
      EXPECT_TRUE(says(plan.explain(), "chosen                                       " + name + "\n"))
          << plan.explain();
      hopper_model::set_schedule({seed % 2 == 0, seed});
      const cli::CaseReport report = cli::check_case(text, 2 * ++seed, {.device = Device::cuda, .engine = name});
      EXPECT_EQ(report.defect, "") << text << ", " << name;
      EXPECT_EQ(report.engine, engine) << text << ", " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Candidates, ::testing::ValuesIn(shapes));

TEST(Candidates, ThatThereAreNotAreRefused) {
  const std::string text = in_mode(shapes[0], bf16);
  const std::string first = candidates_of(text).at(0);
  try {
    Plan::from_text(text, {.device = Device::cuda, .engine = "cuda-sm90 none"});
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(std::string(error.what()).find(first + ": 'cuda-sm90 none' is asked for"), std::string::npos)
        << error.what();
  }
  const WithVariable forced("CONVT_ENGINE", first);
  EXPECT_TRUE(says(explained(text), first + " "));
  EXPECT_EQ(candidates_of(text), std::vector<std::string>{first});
}

// Lines of 35 outputs are no whole sectors, so that the preferred tile stores rows. It cannot store a reduction.
TEST(Predictions, FollowTheTileThatRuns) {
  const std::string layer = "conv_transpose3d dtype=bf16 batch=8 channels=16->24 input=64 kernel=3 stride=2 padding=1";
  EXPECT_TRUE(says(explained(layer), "tiles r")) << explained(layer);
  const std::string reduced = explained(layer + " | tanh | logsumexp");
  EXPECT_FALSE(says(reduced, "tiles r")) << reduced;
  EXPECT_TRUE(says(reduced, "the chain is a register program")) << reduced;
  const std::string program = explained(layer + " | tanh | sigmoid");
  EXPECT_TRUE(says(program, "the chain is a register program")) << program;
  // Steps over channels and the convolution's own result need a strip, which is no tile of f16 in place of tf32.
  for (const std::string& mode : {bf16, tf32}) {
    const std::string kept = explained("conv_transpose2d " + mode +
                                       " batch=8 channels=64->64 input=64 kernel=3 stride=2 | softmax | logsumexp | "
                                       "softmax | layer_norm(channels) | softmax | softmax | softmax");
    EXPECT_TRUE(says(kept, "the chain runs in strips")) << kept;
  }
  EXPECT_FALSE(says(explained(layer), "the chain"));
}

double predicted(const std::string& text, const std::string& engine = "cuda-sm90") {
  return Plan::from_text(text, {.device = Device::cuda, .engine = engine}).predicted_seconds();
}

TEST(Predictions, GrowWithTheChain) {
  for (const std::string& mode : {tf32, bf16}) {
    const std::string layer = "conv_transpose2d " + mode + " batch=32 channels=64->64 input=64 kernel=3 stride=2";
    const double alone = predicted(layer);
    EXPECT_GT(predicted(layer + " | tanh"), alone);
    EXPECT_GT(predicted(layer + " | tanh | sigmoid | tanh | sigmoid"), predicted(layer + " | tanh"));
    // The tensor is loaded once: 32 * 64 * 129 * 129 elements at 0.8 of the memory's rate.
    const double bytes = 32.0 * 64 * 129 * 129 * (mode == bf16 ? 2 : 4);
    EXPECT_GT(predicted(layer + " | add(tensor)") - alone, 0.9 * bytes / (0.8 * 4.917e12)) << mode;
    EXPECT_TRUE(says(explained(layer), "bound by ")) << explained(layer);
  }
  // Weights of 75 MB are packed in each call.
  const double few = predicted("conv_transpose2d dtype=bf16 channels=2048->512 input=4 kernel=1");
  const double many = predicted("conv_transpose2d dtype=bf16 channels=2048->512 input=4 kernel=6");
  EXPECT_GT(many - few, 2 * 35 * 2048.0 * 512 * 2 / 4.917e12);
}

// Both programs are offered where they differ, and predicted times decide.
TEST(ChangedKernels, AreChosenIfTheyAreFaster) {
  for (const std::string chain : {" | bias | sum", " | mean | sigmoid", " | avg_pool(2) | bias | relu"})
    for (const std::string& mode : {f32, tf32, bf16, f64}) {
      const std::string text =
          "conv_transpose2d " + mode + " batch=4 channels=64->64 input=64 kernel=3 stride=2 padding=1" + chain;
      const std::vector<std::string> names = candidates_of(text);
      const auto asked = [](const std::string& name) { return name.find(" asked-kernel") != std::string::npos; };
      EXPECT_TRUE(std::ranges::any_of(names, asked)) << explained(text);
      double least[2] = {1e9, 1e9};
      for (const std::string& name : names) least[asked(name)] = std::min(least[asked(name)], predicted(text, name));
      const std::string explanation = explained(text);
      EXPECT_EQ(says(explanation, "the kernel stays as it is"), least[1] < least[0]) << explanation;
      EXPECT_EQ(predicted(text, ""), std::min(least[0], least[1])) << explanation;
      // A changed kernel is float32.
      if (mode == bf16)
        EXPECT_EQ(verdict_of(text, "cuda-sm90"), "rejects: the rewritten kernel is not in the tensors' dtype");
      else
        EXPECT_FALSE(std::ranges::all_of(names, asked)) << explanation;
    }
  EXPECT_EQ(candidates_of("conv_transpose2d dtype=f64 channels=8->8 input=8 kernel=3 | relu").size(), 1U);
}

}  // namespace
}  // namespace convt::testing
