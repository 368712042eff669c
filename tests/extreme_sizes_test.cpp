// SPDX-License-Identifier: Apache-2.0
// Sizes near the ends of 31, 32 and 62 bits, with tensors of a few elements: nothing wraps, whoever computes. Run it
// with the preset asan: sanitizers see what happens not to show in a result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "convt/convt.hpp"
#include "execution.hpp"
#include "random.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

std::size_t extreme(Random& random) {
  const std::size_t power =
      random.pick<std::size_t>({16, 20, 28, 29, 30, 31, 31, 32, 32, 33, 40, 48, 60, 61, 62, 62, 63});
  const std::size_t near = (std::size_t{1} << power) + random.between(0, 4) - 2;
  return random.chance(15) ? near / random.between(2, 7) : near;
}
std::size_t size(Random& random, std::size_t percent) {
  return random.chance(percent) ? extreme(random) : random.between(1, 4);
}

// Most of what is drawn is legal: the padding leaves a few outputs.
void draw_axis(Random& random, Problem& problem) {
  const std::size_t input = random.between(1, 3), kernel = random.between(1, 3);
  std::size_t stride = size(random, 30), dilation = size(random, 50);
  if (random.chance(20)) stride = dilation = extreme(random);  // every tap meets inputs
  if (random.chance(10)) dilation = stride * random.between(1, 3);
  const std::size_t most = std::max(stride, dilation) - 1;
  const std::size_t extra = random.chance(70)   ? 0
                            : random.chance(50) ? most
                                                : std::min<std::size_t>(most, extreme(random));
  // As the library counts it, but for what wraps: that must be refused.
  const std::size_t whole = (input - 1) * stride + (kernel - 1) * dilation + extra + 1;
  const std::size_t left = random.between(1, 5);
  std::size_t padding = whole > left ? (whole - left) / 2 : 0;
  if (random.chance(5)) padding = extreme(random);
  problem.input.push_back(input);
  problem.kernel.push_back(kernel);
  problem.stride.push_back(stride);
  problem.dilation.push_back(dilation);
  problem.output_padding.push_back(extra);
  problem.padding.push_back(padding);
}

std::string draw_pool(Random& random) {
  const std::size_t window = size(random, 50), stride = size(random, 50);
  std::string text = random.pick<std::string>({"max_pool", "avg_pool"}) + "(" + std::to_string(window);
  text += ", stride=" + std::to_string(stride) + ", padding=" + std::to_string(random.chance(50) ? window / 2 : 0);
  return text + (random.chance(50) ? ", ceil=true)" : ")");
}

Problem draw(std::uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.dims = random.between(1, 3);
  for (Sizes* sizes : {&problem.stride, &problem.padding, &problem.output_padding, &problem.dilation}) sizes->clear();
  for (std::size_t axis = 0; axis < problem.dims; ++axis) draw_axis(random, problem);
  problem.dtype = random.pick({DType::f32, DType::f64, DType::f16, DType::bf16});
  problem.input_layout = random.pick({Layout::channels_first, Layout::channels_last});
  problem.batch_size = random.between(1, 2);
  problem.groups = random.pick<std::size_t>({1, 1, 2});
  problem.in_channels = problem.groups * random.between(1, 3);
  problem.out_channels = problem.groups * random.between(1, 2);
  for (std::size_t i = random.between(0, 2); i > 0; --i)
    problem.chain +=
        (problem.chain.empty() ? "" : " | ") +
        (random.chance(80) ? draw_pool(random) : random.pick<std::string>({"relu", "layer_norm(channels)", "sum"}));
  return problem;
}

std::size_t elements(const Plan& plan) {
  std::size_t most =
      std::max({plan.input_info().elements(), plan.kernel_info().elements(), plan.output_info().elements()});
  return most;
}

std::string text_of(std::uint64_t seed) {
  const Problem problem = draw(seed);
  std::string text = "seed " + std::to_string(seed) + ":";
  const auto add = [&](const char* name, const Sizes& sizes) {
    text += std::string(" ") + name;
    for (const std::size_t one : sizes) text += " " + std::to_string(one);
  };
  add("input", problem.input);
  add("kernel", problem.kernel);
  add("stride", problem.stride);
  add("padding", problem.padding);
  add("output_padding", problem.output_padding);
  add("dilation", problem.dilation);
  return text + " | " + problem.chain;
}

// Legal, of a few elements, and as the reference has it; or refused.
enum class Fate { ran, planned, refused };
Fate check(const Problem& problem) {
  constexpr std::size_t few = 4096, little = std::size_t{1} << 30;
  try {
    Plan plan(problem);
    EXPECT_FALSE(plan.explain().empty());
    if (elements(plan) > few) return Fate::planned;
    if (Plan(problem, {.engine = "reference"}).workspace_size() > little) return Fate::planned;  // between its ops
    EXPECT_LE(plan.workspace_size(), little) << plan.engine();
    const Inputs inputs = make_inputs(plan, 7, Fill::signed_unit);
    const Reference reference = run_reference(plan, inputs, problem.batch_size);
    Tolerance tolerance = tolerance_of(problem.dtype, problem.precision);
    tolerance.of_largest *= 10;
    tolerance.absolute += 1e-4;  // norms of values that are almost equal
    const Comparison comparison = compare(to_channels_first(execute(plan, inputs), plan.output_info()),
                                          reference.output, plan.output_info().shape, tolerance);
    EXPECT_TRUE(comparison.ok) << plan.engine() << ": output" << comparison.text;
    return Fate::ran;
  } catch (const Error& error) {
    EXPECT_TRUE(error.status() == Status::invalid_argument || error.status() == Status::unsupported) << error.what();
    return Fate::refused;
  }
}

TEST(ExtremeSizes, TinyTensorsAreAsTheReferenceHasThem) {
  constexpr std::uint64_t cases = 4000;
  std::uint64_t ran = 0;
  for (std::uint64_t seed = 0; seed < cases && !HasFailure(); ++seed) {
    SCOPED_TRACE(text_of(seed));
    ran += check(draw(seed)) == Fate::ran ? 1 : 0;
  }
  EXPECT_GT(ran, cases / 2);
}

// Cases that once wrote outside of their patch, and neighbours of them.
TEST(ExtremeSizes, WhatOnceWasWrong) {
  for (const std::string text : {
           "conv_transpose2d channels=4->1 input=3 kernel=3 dilation=3000000000 padding=2999999999",
           "conv_transpose2d channels=1->1 input=2x1 kernel=3x1 stride=3x1 padding=466343004272x0 "
           "dilation=466343004274x1",
           "conv_transpose1d channels=1->1 input=2 kernel=3 stride=3 padding=4294967296 dilation=4294967298",
           "conv_transpose3d channels=1->1 input=1 kernel=3 dilation=2097152 padding=2097152",
           "conv_transpose1d channels=1->1 input=3 kernel=1 | avg_pool(9223372036854775807, "
           "padding=4611686018427387903)",
       }) {
    SCOPED_TRACE(text);
    EXPECT_EQ(check(Plan::from_text(text).problem()), Fate::ran);
  }
}

TEST(ExtremeSizes, TheNamedFunctionToo) {
  std::vector<float> input(9, 1), kernel(9), output(9, -1);
  for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] = static_cast<float>(i);
  const std::size_t far = 3000000000;
  ASSERT_EQ(convt_conv_transpose_2d_square_input_asym_kernel_f32(input.data(), kernel.data(), output.data(), 1, 1, 1, 3,
                                                                 3, 3, 3, 1, 1, far, far, 0, 0, far, far, 1),
            CONVT_OK)
      << convt_last_error();
  EXPECT_EQ(output, std::vector<float>(9, 4));  // the middle tap alone
}

// Tensors that no machine has can be planned, or are refused in words; nothing else happens.
TEST(ExtremeSizes, HugeTensorsArePlanned) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    Problem problem = draw(seed);
    std::size_t* const some[] = {&problem.batch_size, &problem.in_channels,   &problem.out_channels, &problem.groups,
                                 &problem.input[0],   &problem.kernel.back(), &problem.input.back()};
    for (std::size_t i = random.between(1, 3); i > 0; --i) *some[random.below(std::size(some))] = extreme(random);
    if (random.chance(50)) problem.groups = 1;
    if (random.chance(70)) std::fill(problem.padding.begin(), problem.padding.end(), random.between(0, 2));
    SCOPED_TRACE(text_of(seed));
    try {
      EXPECT_FALSE(Plan(problem).explain().empty());
    } catch (const Error& error) {
      EXPECT_TRUE(error.status() == Status::invalid_argument || error.status() == Status::unsupported) << error.what();
    }
  }
}

}  // namespace
}  // namespace convt::cli
