// SPDX-License-Identifier: Apache-2.0
//
// convt from C++20: a plan, its operands, an exception, and a named problem.
//
//   c++ -std=c++20 main.cpp $(pkg-config --cflags --libs convt) -o example && ./example
#include <convt/convt.hpp>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

// A transposed convolution of one row, stride 1, is polynomial multiplication: (1, 2, 3) by (1, 10) is (1, 12, 23, 30).
bool run_plan() {
  const std::vector<float> input{1, 2, 3}, kernel{1, 10}, bias{-20};
  const convt::Plan plan(
      {.in_channels = 1, .out_channels = 1, .input = {3}, .kernel = {2}, .chain = "bias | relu | mul(0.5)"});
  std::vector<float> output(plan.output_info().elements());
  plan.execute<float>({.input = input, .kernel = kernel, .output = output, .operands = {bias}});

  std::printf("%s\n", plan.explain().c_str());
  return output == std::vector<float>{0, 0, 1.5, 5};
}

// Failures are convt::Error: what() names the argument, the rule and the values. Nothing was written.
bool see_an_error() {
  const convt::Plan plan = convt::Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2");
  const std::vector<float> input{1, 2}, kernel{1, 10};  // an input too short
  std::vector<float> output(4);
  try {
    plan.execute<float>({.input = input, .kernel = kernel, .output = output});
  } catch (const convt::Error& error) {
    std::printf("%s: %s\n", to_string(error.status()).c_str(), error.what());
    return error.status() == convt::Status::invalid_argument;
  }
  return false;
}

// The five named problems are functions, one template each for float, double, f16 and bf16.
bool run_named_problem() {
  const std::vector<double> input(54, 1.0), kernel(216, 1.0), bias{0, 1, 2, 3};  // 2x3x3x3, 2x4x3x3x3
  convt::ConvTranspose3dMaxMaxSum<double> problem{.input = input,
                                                  .kernel = kernel,
                                                  .conv_bias = bias,
                                                  .in_channels = 2,
                                                  .out_channels = 4,
                                                  .input_size = {3, 3, 3},
                                                  .kernel_size = {3},
                                                  .stride = {2}};
  const auto shape = conv_transpose3d_max_max_sum_output_shape(problem);
  std::vector<double> output(shape[0] * shape[1] * shape[2] * shape[3] * shape[4]);
  problem.output = output;
  conv_transpose3d_max_max_sum(problem);

  // Where two taps of each axis meet, ones give 2 channels * 2 * 2 * 2 = 16; the sum adds (0 + 1 + 2 + 3) to 4 of them.
  std::printf("output shape: %zu x %zu x %zu x %zu x %zu, first element %g\n", shape[0], shape[1], shape[2], shape[3],
              shape[4], output.at(0));
  return output.size() == 1 && output[0] == 70;
}

}  // namespace

int main() {
  try {
    return run_plan() && see_an_error() && run_named_problem() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
