// SPDX-License-Identifier: Apache-2.0
// Every golden case, element by element, through the C ABI.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "convt/convt.h"
#include "support/environment.hpp"
#include "support/golden.hpp"
#include "support/isas.hpp"

namespace convt::testing {
namespace {

struct Destroy {
  void operator()(convt_plan* plan) const { convt_plan_destroy(plan); }
};

const std::vector<GoldenCase>& cases() {
  static const auto all = load_golden(golden_folder());
  return all;
}

enum class Way { plain, packed_kernel, own_workspace };

using PlanPointer = std::unique_ptr<convt_plan, Destroy>;

// Null: see convt_last_error().
PlanPointer make_plan(const std::string& text, const char* engine) {
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  options.engine = engine;
  convt_plan* plan = nullptr;
  return PlanPointer(convt_plan_create_from_text(&plan, text.c_str(), &options) == CONVT_OK ? plan : nullptr);
}

std::vector<convt_tensor_info> operands_of(const convt_plan* plan) {
  std::vector<convt_tensor_info> infos(convt_plan_operand_count(plan));
  for (std::size_t i = 0; i < infos.size(); ++i) convt_plan_operand_info(plan, i, &infos[i]);
  return infos;
}

// Plans fold operands that are no whole tensors, as is right for finite ones.
bool is_folded(const GoldenCase& golden, const convt_plan* plan) {
  convt_tensor_info input;
  convt_plan_input_info(plan, &input);
  const auto infos = operands_of(plan);
  return golden.fill == "special" && std::any_of(infos.begin(), infos.end(), [&](const convt_tensor_info& operand) {
           return operand.rank != input.rank;
         });
}

// Where element i, in memory order, is in a tensor that can be a range of a wider one's channels.
std::size_t place_of(std::size_t i, const convt_tensor_info& info, const std::size_t* strides) {
  const std::size_t channels = info.shape[1], image = element_count(info) / info.shape[0];
  return info.layout == CONVT_CHANNELS_FIRST ? i / image * strides[0] + i % image
                                             : i / channels * strides[info.rank - 1] + i % channels;
}
Buffer placed(const Buffer& from, const convt_tensor_info& info, const std::size_t* strides) {
  Buffer to(from.dtype, from.count == 0 ? 0 : place_of(from.count - 1, info, strides) + 1);
  for (std::size_t i = 0; i < to.count; ++i) to.set(i, std::nan(""));
  for (std::size_t i = 0; i < from.count; ++i) to.set(place_of(i, info, strides), from.get(i));
  return to;
}

// Runs a case into a poisoned output; "" or what is wrong.
std::string run(const GoldenCase& golden, convt_plan* plan, Way way, const Tolerance& tolerance) {
  convt_tensor_info input, kernel, output;
  convt_plan_input_info(plan, &input);
  convt_plan_kernel_info(plan, &kernel);
  convt_plan_output_info(plan, &output);
  std::size_t input_strides[5], output_strides[5];
  convt_plan_input_strides(plan, input_strides);
  convt_plan_output_strides(plan, output_strides);
  const Buffer x = placed(golden_tensor(golden, 0, input), input, input_strides);
  const Buffer w = golden_tensor(golden, 1, kernel);
  std::vector<Buffer> operands;
  std::vector<const void*> pointers;
  for (const convt_tensor_info& info : operands_of(plan))
    operands.push_back(golden_tensor(golden, 2 + operands.size(), info));
  for (const Buffer& operand : operands) pointers.push_back(operand.data());
  Buffer result(output.dtype, element_count(output));
  for (std::size_t i = 0; i < result.count; ++i) result.set(i, 12345.0);
  Buffer y = placed(result, output, output_strides);

  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = x.data();
  tensors.kernel = w.data();
  tensors.output = y.data();
  tensors.operands = pointers.data();
  tensors.operand_count = pointers.size();
  if (way == Way::packed_kernel) {
    if (convt_plan_pack_kernel(plan, w.data(), nullptr) != CONVT_OK) return convt_last_error();
    tensors.kernel = nullptr;
  }
  std::unique_ptr<void, decltype(&std::free)> workspace(nullptr, &std::free);
  if (way == Way::own_workspace) {
    convt_plan_workspace_size(plan, &tensors.workspace_size);
    workspace.reset(std::aligned_alloc(64, tensors.workspace_size / 64 * 64 + 64));
    std::memset(workspace.get(), 0xff, tensors.workspace_size);
    tensors.workspace = workspace.get();
  }
  if (convt_plan_execute(plan, &tensors) != CONVT_OK) return convt_last_error();
  for (std::size_t i = 0; i < result.count; ++i) result.set(i, y.get(place_of(i, output, output_strides)));
  return compare(result, golden.expected, tolerance);
}

void run_reference(Way way, std::size_t step) {
  for (std::size_t i = 0; i < cases().size(); i += step) {
    const PlanPointer plan = make_plan(cases()[i].text, "reference");
    ASSERT_NE(plan, nullptr) << convt_last_error();
    EXPECT_EQ(explained(convt_plan_explain(plan.get()), "chosen"), "reference");
    EXPECT_EQ(run(cases()[i], plan.get(), way, of_reference), "")
        << "case " << i << ", seed " << cases()[i].seed << ": " << cases()[i].text;
  }
}

TEST(Golden, EveryCase) { run_reference(Way::plain, 1); }
TEST(Golden, PackedKernel) { run_reference(Way::packed_kernel, 3); }
TEST(Golden, OwnWorkspace) { run_reference(Way::own_workspace, 3); }

TEST(Golden, CpuEngineOnEveryInstructionSet) {
  const auto names = isas();
  ASSERT_FALSE(names.empty()) << convt_last_error();
  EXPECT_EQ(names.back(), "scalar");
  for (const std::string& isa : names) {
    const WithVariable variable("CONVT_ISA", isa);
    std::size_t ran = 0;
    for (std::size_t i = 0; i < cases().size(); ++i) {
      const GoldenCase& golden = cases()[i];
      const PlanPointer plan = make_plan(golden.text, nullptr);
      ASSERT_NE(plan, nullptr) << convt_last_error();
      if (is_folded(golden, plan.get())) continue;
      const std::string explanation = convt_plan_explain(plan.get());
      EXPECT_TRUE(runs_on(explanation, isa)) << explanation;
      Tolerance tolerance = of_engine;
      tolerance.any_for_nan = sums_in_kernel(explanation);
      const auto way = static_cast<Way>(i % 3);
      EXPECT_EQ(run(golden, plan.get(), way, tolerance), "")
          << isa << ", case " << i << ", seed " << golden.seed << ": " << golden.text;
      ++ran;
    }
    EXPECT_GE(ran, cases().size() * 9 / 10);
  }
}

TEST(Golden, ThereAreEnough) { EXPECT_GE(cases().size(), 400U); }

// The checks can fail: a wrong element, a missing NaN and a NaN too many are noticed in every element type.
TEST(Golden, ComparisonNotices) {
  for (const Tolerance& tolerance : {of_reference, of_engine})
    for (const convt_dtype dtype : {CONVT_F32, CONVT_F64, CONVT_F16, CONVT_BF16}) {
      const std::vector<double> expected{1.0, -2.0, 0.5};
      Buffer got(dtype, 3);
      for (std::size_t i = 0; i < 3; ++i) got.set(i, expected[i]);
      EXPECT_EQ(compare(got, expected, tolerance), "");
      got.set(1, -2.0 * (1 + 0.02));
      EXPECT_NE(compare(got, expected, tolerance), "");
      got.set(1, std::nan(""));
      EXPECT_NE(compare(got, expected, tolerance), "");
      got.set(1, -2.0);
      EXPECT_NE(compare(got, {1.0, std::nan(""), 0.5}, tolerance), "");
    }
}

}  // namespace
}  // namespace convt::testing
