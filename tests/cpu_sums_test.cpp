// SPDX-License-Identifier: Apache-2.0
// Sums and averages over all of space on the CPU: from sums of boxes of the input, on every instruction set, against
// the reference in f64. And pools that stay behind the convolution since that is predicted to be faster.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "execution.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

using convt::testing::explained;
using convt::testing::isas;

class CpuSums : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuSums, ::testing::ValuesIn(isas()), [](const auto& info) { return info.param; });

Plan make_plan(const std::string& text) { return Plan::from_text(text, {.engine = "cpu"}); }

bool sums(const Plan& plan) {
  const std::string text = plan.explain(), chosen = explained(text, "chosen");
  return chosen.ends_with(" sums") && convt::testing::sums_in_kernel(text);
}

std::vector<std::uint64_t> run(Plan plan, const Inputs& inputs, const ExecutionOptions& options) {
  Execution execution(plan, inputs, options);
  execution.execute();
  EXPECT_EQ(execution.defect(), "");
  std::vector<std::uint64_t> bits;
  for (const double x : execution.output()) bits.push_back(std::bit_cast<std::uint64_t>(x));
  return bits;
}

std::string in_mode(std::string text, const std::string& mode) {
  const std::size_t at = text.find("d ", text.find("conv_transpose"));
  return text.insert(at + 1, " " + mode);
}

// Boxes that are the whole input and that are not, and empty ones; rows shorter than a vector, of all lengths around
// what goes together, and longer than a strip and a band; images of several bands; many channels and images, groups,
// ranges, prologues; shifts before sums, reductions over channels before and after; steps that use kept values.
const std::vector<std::string>& shapes() {
  static const std::vector<std::string> all{
      "conv_transpose1d batch=5 channels=3->65 input=7 kernel=3 | global_avg_pool",
      "conv_transpose1d batch=2 channels=8->4 input=2500 kernel=16 stride=8 padding=4 | bias | global_avg_pool",
      "conv_transpose1d channels=3->4 input=70001 kernel=3 | mean(axes=w)",
      "conv_transpose1d batch=3 channels=4->6 input=100 kernel=40 stride=4 padding=3 dilation=3 | sum(axes=w)",
      "conv_transpose2d batch=2 channels=8->8 input=8x16 kernel=3 stride=2 padding=1 output_padding=1 | bias | "
      "global_avg_pool | relu",
      "conv_transpose2d batch=9 channels=6->60 input=9x13 kernel=3x5 padding=1x2 groups=2 | batch_norm(affine) | "
      "mean(axes=hw) | softmax",
      "conv_transpose2d channels=33->40 input=5x6 kernel=4 stride=3 padding=3 dilation=2x1 | global_avg_pool | bias | "
      "sigmoid",
      "conv_transpose2d channels=3->100 input=3x3 kernel=3 padding=1x2 dilation=1x2 output_padding=0x1 | sum(axes=hw) "
      "| "
      "mul(0.5)",
      "conv_transpose2d channels=2->3 input=3x2100 kernel=3 stride=1x2 | global_avg_pool | add(tensor)",
      "conv_transpose2d channels=2->3 input=300x310 kernel=3 stride=2 padding=1 | mul(2) | global_avg_pool",
      "conv_transpose2d batch=2 channels=5->7 input=33x129 kernel=3 stride=2 padding=1 | bias | sum(axes=hw) | mul(2)",
      "conv_transpose2d batch=2 channels=12->6 input=19x20 kernel=5 stride=2 groups=3 | bias | sum(axes=chw)",
      "conv_transpose2d batch=2 channels=4->6 input=9x10 kernel=3 stride=2 | mul(channel) | mean | global_avg_pool",
      "conv_transpose2d batch=2 channels=4->6 input=9x20 kernel=8 stride=2 | avg_pool(2) | global_avg_pool | mean",
      "conv_transpose2d batch=2 channels=4->60 input=9x10 kernel=2 stride=2 | global_avg_pool | keep(a) | sigmoid | "
      "mul(a)",
      "conv_transpose2d batch=2 channels=4->6 input=9x10 kernel=3 | bias | global_avg_pool | layer_norm(channels) | "
      "gelu",
      "conv_transpose3d batch=2 channels=4->6 input=4x5x16 kernel=3 stride=2 padding=1 | bias | mul(2) | "
      "global_avg_pool | logsumexp",
      "conv_transpose3d batch=2 channels=4->6 within=7->9 input=4x5x16 kernel=3 stride=2 padding=1 | global_avg_pool | "
      "tanh",
      "conv_transpose3d channels=3->4 input=40x41x42 kernel=3 stride=1 padding=1 | bias | mean(axes=dhw)",
      "leaky_relu(0.1) | conv_transpose2d batch=3 channels=35->60 input=12x20 kernel=3 stride=2 padding=1 | bias | "
      "global_avg_pool",
      "bias | sigmoid | conv_transpose3d channels=3->60 input=4x5x7 kernel=3 padding=1 | global_avg_pool",
  };
  return all;
}

TEST_P(CpuSums, AgreeWithTheReference) {
  std::uint64_t seed = 0;
  for (const std::string& shape : shapes())
    for (const std::string mode : {"dtype=f32", "dtype=f64", "dtype=f16", "dtype=bf16"})
      for (const std::string layout : {"channels_first", "channels_last"}) {
        const std::string text = in_mode(shape, mode + " layout=" + layout);
        EXPECT_TRUE(sums(make_plan(text))) << make_plan(text).explain();
        EXPECT_EQ(check_case(text, ++seed, {.engine = "cpu"}).defect, "") << "seed " << seed << ": " << text;
      }
}

// However the case is handed over, and for any number of threads.
TEST_P(CpuSums, HaveTheSameBits) {
  for (const std::string& text : shapes()) {
    set_num_threads(1);
    const Inputs inputs = make_inputs(make_plan(text), 1, Fill::unit);
    const auto plain = run(make_plan(text), inputs, {});
    for (const std::size_t threads : {2U, 5U}) {
      set_num_threads(threads);
      EXPECT_EQ(run(make_plan(text), inputs, {}), plain) << text;
      EXPECT_EQ(run(make_plan(text), inputs, {.pack_kernel = true}), plain) << text;
      EXPECT_EQ(run(make_plan(text), inputs, {.own_workspace = true, .aligned = false}), plain) << text;
    }
  }
}

// Inputs that no tap takes to the output do not reach it, nor do weights that no input has.
TEST_P(CpuSums, KeepOthersInfinities) {
  for (const std::string text :
       {"conv_transpose1d channels=2->3 input=9 kernel=5 padding=4 | global_avg_pool",
        "conv_transpose2d channels=2->3 input=4x3 kernel=5 stride=3x7 padding=6x5 output_padding=2 | sum(axes=hw)"})
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      EXPECT_EQ(check_case(text, seed, {.engine = "cpu"}).defect, "") << "seed " << seed << ": " << text;
}

TEST_P(CpuSums, AreDeclinedWithAReason) {
  const auto verdict = [](const std::string& chain) {
    return make_plan("conv_transpose2d channels=4->6 input=40 kernel=3 stride=2 padding=1 | " + chain).explain();
  };
  EXPECT_NE(verdict("relu | global_avg_pool").find("rejects: relu before the sum over space is not linear"),
            std::string::npos);
  EXPECT_NE(make_plan("conv_transpose1d channels=4->6 input=400 kernel=1200 | global_avg_pool")
                .explain()
                .find("rejects: takes up to 1024 taps"),
            std::string::npos);
  EXPECT_EQ(verdict("bias | relu").find(" sums"), std::string::npos);
}

// With few positions, to change the kernel takes longer than the products that this saves.
TEST_P(CpuSums, PoolsStayWhereThatIsFaster) {
  const std::string few = "conv_transpose2d channels=64->64 input=2 kernel=4 stride=2 padding=1 | bias | avg_pool(2)";
  const std::string many = "conv_transpose2d channels=16->16 input=40 kernel=4 stride=2 padding=1 | bias | avg_pool(2)";
  const std::string apart = make_plan(few).explain(), moved = make_plan(many).explain();
  EXPECT_TRUE(explained(apart, "chosen").ends_with(" pools apart")) << apart;
  EXPECT_NE(apart.find("pools stay behind the convolution: one thread is predicted to take"), std::string::npos)
      << apart;
  EXPECT_FALSE(convt::testing::sums_in_kernel(apart)) << apart;
  EXPECT_EQ(explained(moved, "chosen"), "cpu " + GetParam()) << moved;
  EXPECT_NE(moved.find(" pools apart "), std::string::npos) << moved;  // with its prediction
  for (const std::string& text : {few, many})
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      EXPECT_EQ(check_case(text, seed, {.engine = "cpu"}).defect, "") << "seed " << seed << ": " << text;
  // The choice does not depend on the number of threads.
  for (const std::size_t threads : {1U, 2U, 7U, 16U}) {
    set_num_threads(threads);
    EXPECT_EQ(explained(make_plan(few).explain(), "chosen"), explained(apart, "chosen"));
    EXPECT_EQ(explained(make_plan(many).explain(), "chosen"), explained(moved, "chosen"));
  }
}

}  // namespace
}  // namespace convt::cli
