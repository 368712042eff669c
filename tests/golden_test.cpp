// SPDX-License-Identifier: Apache-2.0
// Every golden case, element by element, through the C ABI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "convt/convt.h"
#include "support/golden.hpp"

namespace convt::testing {
namespace {

struct Destroy {
  void operator()(convt_plan* plan) const { convt_plan_destroy(plan); }
};

const std::vector<GoldenCase>& cases() {
  static const auto all = load_golden(CONVT_GOLDEN_DIR);
  return all;
}

enum class Way { plain, packed_kernel, own_workspace };

// The output of a case, poisoned beforehand.
std::string run(const GoldenCase& golden, Way way) {
  convt_plan* raw = nullptr;
  if (convt_plan_create_from_text(&raw, golden.text.c_str(), nullptr) != CONVT_OK) return convt_last_error();
  const std::unique_ptr<convt_plan, Destroy> plan(raw);
  convt_tensor_info input, kernel, output;
  convt_plan_input_info(raw, &input);
  convt_plan_kernel_info(raw, &kernel);
  convt_plan_output_info(raw, &output);
  const Buffer x = golden_tensor(golden, 0, input);
  const Buffer w = golden_tensor(golden, 1, kernel);
  std::vector<Buffer> operands;
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < convt_plan_operand_count(raw); ++i) {
    convt_tensor_info info;
    convt_plan_operand_info(raw, i, &info);
    operands.push_back(golden_tensor(golden, 2 + i, info));
  }
  for (const Buffer& operand : operands) pointers.push_back(operand.data());
  Buffer y(output.dtype, element_count(output));
  for (std::size_t i = 0; i < y.count; ++i) y.set(i, 12345.0);

  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = x.data();
  tensors.kernel = w.data();
  tensors.output = y.data();
  tensors.operands = pointers.data();
  tensors.operand_count = pointers.size();
  if (way == Way::packed_kernel) {
    if (convt_plan_pack_kernel(raw, w.data(), nullptr) != CONVT_OK) return convt_last_error();
    tensors.kernel = nullptr;
  }
  std::unique_ptr<void, decltype(&std::free)> workspace(nullptr, &std::free);
  if (way == Way::own_workspace) {
    convt_plan_workspace_size(raw, &tensors.workspace_size);
    workspace.reset(std::aligned_alloc(64, tensors.workspace_size / 64 * 64 + 64));
    std::memset(workspace.get(), 0xff, tensors.workspace_size);
    tensors.workspace = workspace.get();
  }
  if (convt_plan_execute(raw, &tensors) != CONVT_OK) return convt_last_error();
  return compare(y, golden.expected);
}

void run_all(Way way, std::size_t step) {
  for (std::size_t i = 0; i < cases().size(); i += step)
    EXPECT_EQ(run(cases()[i], way), "") << "case " << i << ", seed " << cases()[i].seed << ": " << cases()[i].text;
}

TEST(Golden, EveryCase) { run_all(Way::plain, 1); }
TEST(Golden, PackedKernel) { run_all(Way::packed_kernel, 3); }
TEST(Golden, OwnWorkspace) { run_all(Way::own_workspace, 3); }

TEST(Golden, ThereAreEnough) { EXPECT_GE(cases().size(), 400U); }

// The checks can fail: a wrong element, a missing NaN and a NaN too many are noticed in every element type.
TEST(Golden, ComparisonNotices) {
  for (const convt_dtype dtype : {CONVT_F32, CONVT_F64, CONVT_F16, CONVT_BF16}) {
    const std::vector<double> expected{1.0, -2.0, 0.5};
    Buffer got(dtype, 3);
    for (std::size_t i = 0; i < 3; ++i) got.set(i, expected[i]);
    EXPECT_EQ(compare(got, expected), "");
    got.set(1, -2.0 * (1 + 0.02));
    EXPECT_NE(compare(got, expected), "");
    got.set(1, std::nan(""));
    EXPECT_NE(compare(got, expected), "");
    got.set(1, -2.0);
    EXPECT_NE(compare(got, {1.0, std::nan(""), 0.5}), "");
  }
}

}  // namespace
}  // namespace convt::testing
