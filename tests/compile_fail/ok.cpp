// SPDX-License-Identifier: Apache-2.0
// The right way to write what the other files of this folder get wrong. Must compile.
#include <array>
#include <utility>
#include <vector>

#include "convt/convt.hpp"

void run(const convt::Plan& plan) {
  const std::vector<float> input(3), kernel(2);
  const std::array<float, 1> bias{};
  std::vector<float> output(4);
  plan.execute<float>({.input = input, .kernel = kernel, .output = output, .operands = {bias}});
}

void run_operands_of_another_type(convt::Plan& plan) {
  const std::vector<convt::f16> input(3), kernel(2);
  const std::vector<float> bias(1);
  std::vector<convt::f16> output(4);
  plan.pack_kernel(kernel);
  plan.execute<convt::f16>({.input = input, .output = output, .operands = {bias}});
}

void run_named(convt::ConvTranspose3dMaxMaxSum<convt::bf16> problem, std::vector<convt::bf16>& output) {
  problem.output = output;
  convt::conv_transpose3d_max_max_sum(problem);
}

convt::Plan move(convt::Plan plan) { return convt::Plan(std::move(plan)); }
