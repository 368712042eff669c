// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs that are ranges of wider tensors' channels: on the reference and on every instruction set of the
// CPU engine, the bits of the dense problem; nothing else is touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
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

const std::vector<std::string>& cases() {
  static const std::vector<std::string> all{
      "conv_transpose1d dtype=D layout=L batch=3 channels=3->5 input=7 kernel=3 stride=2",
      "conv_transpose2d dtype=D layout=L batch=2 channels=17->9 input=5x6 kernel=3 stride=2 padding=1 | bias | gelu",
      "conv_transpose2d dtype=D layout=L batch=2 channels=4->6 groups=2 input=9x33 kernel=4 stride=2 padding=1",
      "conv_transpose3d dtype=D layout=L batch=2 channels=2->4 input=3x4x5 kernel=2 stride=2 | max_pool(2) | sum",
      "conv_transpose2d dtype=D layout=L batch=5 channels=8->7 input=3x2 kernel=2 stride=2 | layer_norm(channels)",
      "conv_transpose2d dtype=D layout=L batch=2 channels=1->7 input=110x100 kernel=3 stride=2 | instance_norm | relu",
      "add(1) | conv_transpose2d dtype=D layout=L batch=2 channels=33->3 input=6x7 kernel=5 | add(tensor)",
      "conv_transpose2d dtype=D layout=L batch=2 channels=2->3 input=5x4 kernel=3 | global_avg_pool | sigmoid",
  };
  return all;
}
std::string filled(std::string text, const std::string& dtype, const std::string& layout) {
  text.replace(text.find("=D ") + 1, 1, dtype);
  return text.replace(text.find("=L ") + 1, 1, layout);
}

std::vector<double> run(Plan plan, const Inputs& inputs, bool aligned) {
  Execution execution(plan, inputs, {.own_workspace = true, .aligned = aligned});
  execution.execute();
  EXPECT_EQ(execution.defect(), "") << plan.text();
  return execution.output();
}

void compare_with_dense(const std::string& engine) {
  for (const std::string& one : cases())
    for (const std::string dtype : {"f32", "f64", "f16", "bf16"})
      for (const std::string layout :
           {"channels_first", "channels_last", "channels_first->channels_last", "channels_last->channels_first"}) {
        const Plan dense = Plan::from_text(filled(one, dtype, layout), {.engine = engine});
        const Inputs inputs = make_inputs(dense, 3, Fill::signed_unit);
        const auto expected = run(Plan(dense.problem(), {.engine = engine}), inputs, true);
        for (const auto& [in, out] : {std::pair{0, 1}, {1, 0}, {3, 5}}) {
          Problem problem = dense.problem();
          problem.input_within = dense.input_info().shape[1] + static_cast<std::size_t>(in);
          problem.output_within = dense.output_info().shape[1] + static_cast<std::size_t>(out);
          EXPECT_EQ(run(Plan(problem, {.engine = engine}), inputs, in != 3), expected)
              << Plan(problem, {.engine = engine}).text();
        }
      }
}

TEST(Slices, OnTheReference) { compare_with_dense("reference"); }

class CpuSlices : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(3); }
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuSlices, ::testing::ValuesIn(convt::testing::isas()),
                         [](const auto& info) { return info.param; });

TEST_P(CpuSlices, GiveTheSameBits) { compare_with_dense("cpu"); }

// Written past the caches, whatever a range's beginning is.
TEST_P(CpuSlices, LargeOutputs) {
  for (const std::string chain : {"", " | relu"})
    EXPECT_EQ(check_case("conv_transpose2d batch=2 channels=1->2 within=1->3 input=1101x1103 kernel=1" + chain, 1,
                         {.engine = "cpu"})
                  .defect,
              "");
}

// ---- What is told about them.

TEST(Slices, Infos) {
  const Plan first = Plan::from_text("conv_transpose2d batch=2 channels=3->4 within=5->9 input=2x3 kernel=2");
  EXPECT_EQ(first.input_info().shape, (Sizes{2, 3, 2, 3}));
  EXPECT_EQ(first.input_info().strides, (Sizes{30, 6, 3, 1}));
  EXPECT_EQ(first.input_info().bytes, 4U * (30 + 18));
  EXPECT_EQ(first.output_info().strides, (Sizes{108, 12, 4, 1}));
  EXPECT_EQ(first.output_info().bytes, 4U * (108 + 48));
  EXPECT_TRUE(first.output_info().is_range());
  const Plan last = Plan::from_text(
      "conv_transpose2d dtype=f16 layout=channels_last batch=2 channels=3->4 within=5->9 input=2x3 kernel=2");
  EXPECT_EQ(last.input_info().strides, (Sizes{30, 1, 15, 5}));
  EXPECT_EQ(last.input_info().bytes, 2U * (11 * 5 + 3));
  EXPECT_EQ(last.output_info().strides, (Sizes{108, 1, 36, 9}));
  const Plan dense = Plan::from_text("conv_transpose1d layout=channels_last channels=3->4 input=5 kernel=2");
  EXPECT_EQ(dense.input_info().strides, (Sizes{15, 1, 3}));
  EXPECT_FALSE(dense.input_info().is_range());
}

TEST(Slices, Texts) {
  const auto text = [](const std::string& fields) {
    return Plan::from_text("conv_transpose1d " + fields + " input=5 kernel=2").text();
  };
  const std::string plain = "conv_transpose1d dtype=f32 batch=1 channels=3->4 input=5 kernel=2";
  EXPECT_EQ(text("channels=3->4"), plain);
  EXPECT_EQ(text("channels=3->4 within=3->4"), plain);
  EXPECT_EQ(text("within=0->0 channels=3->4"), plain);
  EXPECT_EQ(text("channels=3->4 within=0->6"),
            "conv_transpose1d dtype=f32 batch=1 channels=3->4 within=3->6 input=5 kernel=2");
  const Plan plan = Plan::from_text("conv_transpose1d channels=3->4 within=7->2 input=5 kernel=2 | sum");
  EXPECT_EQ(Plan(plan.problem()).text(), plan.text());
  EXPECT_EQ(plan.problem().input_within, 7U);
  EXPECT_EQ(plan.problem().output_within, 2U);
}

std::string complaint(const std::string& text) {
  try {
    Plan::from_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Slices, Refusals) {
  EXPECT_EQ(complaint("conv_transpose1d channels=3->4 within=2->4 input=5 kernel=2"),
            "input_within: must be at least the 3 channels of the range (got 2)");
  EXPECT_EQ(complaint("conv_transpose1d channels=3->4 within=3->3 input=5 kernel=2"),
            "output_within: must be at least the 4 channels of the range (got 3)");
  EXPECT_EQ(complaint("conv_transpose1d channels=3->4 within=3->3 input=5 kernel=2 | sum"), "");
  EXPECT_NE(complaint("conv_transpose1d channels=3->4 within=4611686018427387904->4 input=5 kernel=2")
                .find("input_within: passes 2^63 bytes"),
            std::string::npos);
  EXPECT_NE(complaint("conv_transpose1d channels=3->4 within=6 input=5 kernel=2").find("expected '->'"),
            std::string::npos);
}

// A caller that knows no more of the struct than version 0.2 had.
TEST(Slices, OlderCallersHaveNone) {
  convt_problem problem = CONVT_PROBLEM_INIT;
  problem.struct_size = offsetof(convt_problem, prologue);
  problem.dims = 1;
  problem.in_channels = problem.out_channels = 2;
  problem.input[0] = problem.kernel[0] = 3;
  problem.prologue = "no prologue";
  problem.input_within = problem.output_within = 1;
  convt_plan* plan = nullptr;
  ASSERT_EQ(convt_plan_create(&plan, &problem, nullptr), CONVT_OK) << convt_last_error();
  EXPECT_STREQ(convt_plan_text(plan), "conv_transpose1d dtype=f32 batch=1 channels=2->2 input=3 kernel=3");
  ASSERT_EQ(convt_plan_problem(plan, &problem), CONVT_OK);
  EXPECT_STREQ(problem.prologue, "no prologue");
  EXPECT_EQ(problem.input_within, 1U);
  convt_plan_destroy(plan);
}

// ---- One tensor for both: channels of it are read, and others written.

class OneTensor : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t batch = 3, wide = 7, pixels = 20;
  // Reads channels [in, in + 2) of the tensor and writes 3 from `out` on; "" or the refusal.
  std::string run(std::size_t in, std::size_t out) {
    std::iota(tensor_.begin(), tensor_.end(), 0.0F);
    const bool first = GetParam() == "channels_first";
    const Plan plan = Plan::from_text("conv_transpose2d layout=" + GetParam() +
                                      " batch=3 channels=2->3 within=7->7 input=4x5 kernel=1");
    const std::vector<float> kernel{1, 10, 100, 2, 20, 200};
    const auto from = [&](std::size_t channel) { return std::span(tensor_).subspan(channel * (first ? pixels : 1)); };
    try {
      plan.execute<float>({.input = from(in), .kernel = kernel, .output = from(out)});
    } catch (const Error& error) {
      return error.what();
    }
    for (std::size_t n = 0; n < batch; ++n)
      for (std::size_t c = 0; c < wide; ++c)
        for (std::size_t p = 0; p < pixels; ++p) {
          const auto at = [&](std::size_t channel) {
            return first ? (n * wide + channel) * pixels + p : (n * pixels + p) * wide + channel;
          };
          float expected = static_cast<float>(at(c));
          if (c >= out && c < out + 3)
            expected =
                kernel[c - out] * static_cast<float>(at(in)) + kernel[3 + c - out] * static_cast<float>(at(in + 1));
          if (tensor_[at(c)] != expected) return "wrong";
        }
    return "";
  }
  std::vector<float> tensor_ = std::vector<float>(batch * wide * pixels);
};
INSTANTIATE_TEST_SUITE_P(Layouts, OneTensor, ::testing::Values("channels_first", "channels_last"),
                         [](const auto& info) { return info.param; });

TEST_P(OneTensor, RangesThatShareNoChannelMayInterleave) {
  for (const auto& [in, out] : {std::pair{0, 2}, {0, 4}, {3, 0}, {5, 2}, {5, 0}})
    EXPECT_EQ(run(static_cast<std::size_t>(in), static_cast<std::size_t>(out)), "") << in << " " << out;
}
TEST_P(OneTensor, RangesThatShareOneAreRefused) {
  for (const auto& [in, out] : {std::pair{0, 1}, {0, 0}, {2, 0}, {4, 2}, {3, 4}})
    EXPECT_NE(run(static_cast<std::size_t>(in), static_cast<std::size_t>(out)).find("output: must not overlap input"),
              std::string::npos)
        << in << " " << out;
}

TEST(Slices, SizesThatCallersSay) {
  const Plan plan = Plan::from_text("conv_transpose1d batch=2 channels=1->1 within=3->2 input=4 kernel=1");
  std::vector<float> x(4 + 12), w(1, 2), y(8 + 4);
  std::iota(x.begin(), x.end(), 0.0F);
  plan.execute<float>({.input = x, .kernel = w, .output = y});
  EXPECT_EQ(y, (std::vector<float>{0, 2, 4, 6, 0, 0, 0, 0, 24, 26, 28, 30}));
  x.resize(24);  // more behind it
  plan.execute<float>({.input = x, .kernel = w, .output = y});
  x.resize(15);
  EXPECT_THROW(plan.execute<float>({.input = x, .kernel = w, .output = y}), Error);
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = x.data();
  tensors.kernel = w.data();
  tensors.output = y.data();
  tensors.output_bytes = 44;
  EXPECT_EQ(convt_plan_execute(plan.get(), &tensors), CONVT_INVALID_ARGUMENT);
  EXPECT_STREQ(convt_last_error(), "output: must have at least 48 bytes, by its shape in the plan (got 44)");
}

}  // namespace
}  // namespace convt::cli
