// SPDX-License-Identifier: Apache-2.0
// Ops before the convolution, on the reference and on every instruction set of the CPU engine: against the same
// convolution of an input on which the ops were done here, in double, by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "convt/convt.hpp"
#include "execution.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

struct Before {
  std::string prologue;
  std::function<double(double)> f;
};

// Of 0 they make something else, or something that is not 0 in the last digit.
const std::vector<Before>& unlike_zero() {
  static const std::vector<Before> all{
      {"add(1)", [](double x) { return x + 1; }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"softplus | sub(3) | mul(-2)", [](double x) { return (std::log1p(std::exp(x)) - 3) * -2; }},
      {"mul(0.5) | add(0.25) | relu", [](double x) { return std::max(0.5 * x + 0.25, 0.0); }},
      {"clamp(0.125, 0.5)", [](double x) { return std::clamp(x, 0.125, 0.5); }},
      {"leaky_relu(0.1)", [](double x) { return x > 0 ? x : 0.1 * x; }},
  };
  return all;
}

// Convolutions whose outputs see the outside of the image at every border, in gaps between inputs, and nowhere else.
const std::vector<std::string>& borders() {
  static const std::vector<std::string> all{
      "conv_transpose1d dtype=D channels=3->2 input=5 kernel=7",
      "conv_transpose1d dtype=D batch=3 channels=40->20 input=4 kernel=3 stride=2 padding=1 output_padding=1",
      "conv_transpose1d dtype=D channels=4->4 input=6 kernel=2 stride=5",
      "conv_transpose2d dtype=D channels=2->3 input=4x5 kernel=3x4 stride=2x1 padding=1x0",
      "conv_transpose2d dtype=D layout=channels_last channels=35->3 input=3x40 kernel=5 padding=2 dilation=2",
      "conv_transpose2d dtype=D batch=2 channels=6->4 groups=2 input=3x3 kernel=4 stride=2 padding=1",
      "conv_transpose2d dtype=D channels=70->9 input=30x33 kernel=3",
      "conv_transpose3d dtype=D channels=2->2 input=2x3x4 kernel=3 stride=2x1x3 output_padding=1x0x2",
      "conv_transpose3d dtype=D layout=channels_last->channels_first channels=3->20 input=3x2x5 kernel=2x3x3",
      "conv_transpose2d dtype=D batch=9 channels=8->8 input=2x3 kernel=2 stride=2",
  };
  return all;
}

std::string with_dtype(std::string text, const std::string& dtype) {
  return text.replace(text.find("=D ") + 1, 1, dtype);
}

// What the convolution gives alone on an input that went through f first, in f64.
std::vector<double> by_hand(const std::string& text, const Inputs& inputs, const std::function<double(double)>& f) {
  const Plan given = Plan::from_text(text);
  Problem problem = given.problem();
  problem.dtype = DType::f64;
  problem.input_layout = problem.output_layout = Layout::channels_first;
  Plan plan(problem, {.engine = "reference"});
  Inputs exact = convert_inputs(inputs, given, plan);
  for (double& x : std::get<std::vector<double>>(exact.input)) x = f(x);
  return execute(plan, exact);
}

void compare_with_hand(const std::string& engine, const std::string& dtype) {
  for (const std::string& border : borders())
    for (const Before& before : unlike_zero()) {
      const std::string text = with_dtype(border, dtype);
      Plan plan = Plan::from_text(before.prologue + " | " + text, {.engine = engine});
      SCOPED_TRACE(plan.text());
      const Inputs inputs = make_inputs(plan, 5, Fill::signed_unit);
      Execution execution(plan, inputs, {.aligned = false});
      execution.execute();
      EXPECT_EQ(execution.defect(), "");
      const auto got = to_channels_first(execution.output(), plan.output_info());
      const auto expected = by_hand(text, inputs, before.f);
      const Comparison comparison =
          compare(got, expected, plan.output_info().shape, tolerance_of(plan.output_info().dtype, {}));
      EXPECT_TRUE(comparison.ok) << comparison.text;
    }
}

TEST(Prologue, BordersOnTheReference) {
  for (const char* const dtype : {"f64", "f32", "bf16"}) compare_with_hand("reference", dtype);
}

class CpuPrologue : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(4); }  // so that plans split channels
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuPrologue, ::testing::ValuesIn(convt::testing::isas()),
                         [](const auto& info) { return info.param; });

TEST_P(CpuPrologue, Borders) {
  for (const char* const dtype : {"f64", "f32", "f16"}) compare_with_hand("cpu", dtype);
}

// Operands by channel, steps that do not fold, more of them than a chain has, and what stands behind the convolution.
TEST_P(CpuPrologue, Cases) {
  std::string many = "tanh";
  for (int i = 0; i < 60; ++i) many += i % 2 == 0 ? " | relu" : " | bias";
  for (const std::string& prologue :
       {std::string("batch_norm(affine) | leaky_relu(0.1)"), std::string("prelu | add(channel, dtype=f32)"),
        std::string("bias | gelu | mul(channel)"), std::string("batch_norm"), many})
    for (const std::string behind :
         {"conv_transpose2d channels=33->17 input=6x31 kernel=3 stride=2 padding=1 | bias | gelu",
          "conv_transpose2d dtype=bf16 batch=3 channels=6->4 groups=2 input=5x4 kernel=4 | layer_norm(channels)",
          "conv_transpose1d dtype=f64 layout=channels_last channels=40->8 input=9 kernel=4 stride=4 | add(conv)",
          "conv_transpose2d channels=1->6 input=110x100 kernel=3 stride=2 | instance_norm | relu"})
      for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}}) {
        const CaseReport report = check_case(prologue + " | " + behind, seed, {.engine = "cpu"});
        EXPECT_EQ(report.defect, "") << "seed " << seed << ": " << prologue << " | " << behind;
      }
}

// Weights that are not finite meet no zero outside the image, whatever the prologue makes of zeros.
TEST_P(CpuPrologue, NonfiniteWeights) {
  for (const double weight : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const std::string& border : borders()) {
      const std::string text = with_dtype(border, "f32");
      Plan plan = Plan::from_text("add(1) | " + text, {.engine = "cpu"});
      SCOPED_TRACE(plan.text());
      Inputs inputs = make_inputs(plan, 3, Fill::unit);
      auto& kernel = std::get<std::vector<float>>(inputs.kernel);
      kernel[kernel.size() / 2] = static_cast<float>(weight);
      const auto expected = by_hand(text, inputs, [](double x) { return x + 1; });
      EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [](double x) { return std::isfinite(x); }) ||
                  expected.size() < 64);
      for (const bool pack : {false, true}) {
        Execution execution(plan, inputs, {.pack_kernel = pack});
        execution.execute();
        EXPECT_EQ(execution.defect(), "");
        const auto got = to_channels_first(execution.output(), plan.output_info());
        const Comparison comparison = compare(got, expected, plan.output_info().shape, tolerance_of(DType::f32, {}));
        EXPECT_TRUE(comparison.ok) << comparison.text;
      }
    }
}

// ---- What is told about it.

std::string complaint(const std::string& text) {
  try {
    Plan::from_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Prologue, Refusals) {
  const std::string head = " | conv_transpose1d channels=2->3 input=5 kernel=3";
  for (const std::string op : {"layer_norm(channels)", "group_norm(1)", "instance_norm", "max_pool(2)", "avg_pool(2)",
                               "global_avg_pool", "sum", "softmax", "add(tensor)", "mul(conv)"}) {
    const std::string message = complaint("relu | " + op + head);
    EXPECT_NE(message.find("cannot stand before the convolution"), std::string::npos) << op << ": " << message;
    EXPECT_EQ(message.find(op.substr(0, op.find('('))), 0U) << message;
    EXPECT_NE(message.find("in op 2 of the prologue"), std::string::npos) << message;
  }
  EXPECT_NE(complaint("relu conv_transpose1d channels=2->3 input=5 kernel=3").find("column 6: expected '|'"),
            std::string::npos);
  EXPECT_NE(complaint("gelo" + head).find("did you mean 'gelu'?"), std::string::npos);
  EXPECT_NE(complaint("relu").find("expected '|'"), std::string::npos);
  EXPECT_NE(complaint("relu | gelu").find("expected '|'"), std::string::npos);
}

TEST(Prologue, OperandsComeFirstAndSaySo) {
  const Plan plan = Plan::from_text(
      "batch_norm(affine) | bias | conv_transpose1d dtype=f16 channels=2->3 input=5 kernel=3 | bias | batch_norm");
  const std::vector<std::pair<std::string, std::size_t>> expected{
      {"prologue.batch_norm.mean", 0}, {"prologue.batch_norm.var", 0}, {"prologue.batch_norm.weight", 0},
      {"prologue.batch_norm.bias", 0}, {"prologue.bias.other", 1},     {"bias.other", 0},
      {"batch_norm.mean", 1},          {"batch_norm.var", 1}};
  ASSERT_EQ(plan.operand_infos().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorInfo& info = plan.operand_infos()[i];
    EXPECT_EQ(info.name, expected[i].first);
    EXPECT_EQ(info.stage, expected[i].second) << info.name;
    EXPECT_EQ(info.shape, Sizes{i < 5 ? std::size_t{2} : std::size_t{3}}) << info.name;
  }
}

TEST(Prologue, TextAndStructAreTheSame) {
  const std::string text =
      "mul(2) | leaky_relu(slope=0.1) | conv_transpose2d dtype=f32 batch=1 channels=2->3 input=5 kernel=3 | relu";
  const Plan plan = Plan::from_text(text);
  EXPECT_EQ(plan.text(), text);
  EXPECT_EQ(plan.problem().prologue, "mul(2) | leaky_relu(slope=0.1)");
  EXPECT_EQ(Plan(plan.problem()).text(), text);
}

TEST(Prologue, LinearOpsBecomeOne) {
  const std::string explained =
      Plan::from_text("batch_norm | mul(2) | bias | conv_transpose1d channels=2->3 input=5 kernel=3").explain();
  EXPECT_NE(explained.find("before the convolution, batch_norm, mul(2), bias: one multiply-add per channel"),
            std::string::npos)
      << explained;
}

}  // namespace
}  // namespace convt::cli
