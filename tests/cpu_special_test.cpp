// SPDX-License-Identifier: Apache-2.0
// Numbers that are not ordinary, on every instruction set of the CPU engine: weights that are Inf or NaN, constants
// whose products leave the range, and what becomes of the caller's floating-point environment.
#include <fenv.h>  // feenableexcept is no C++
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "check.hpp"
#include "compare.hpp"
#include "execution.hpp"
#include "random.hpp"
#include "random_case.hpp"
#include "support/engine_cases.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

using convt::testing::isas;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class CpuSpecial : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(4); }
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuSpecial, ::testing::ValuesIn(isas()), [](const auto& info) { return info.param; });

// ---- Weights.

void make_special(Random& random, Tensor& kernel) {
  std::visit(
      [&](auto& elements) {
        using E = typename std::remove_cvref_t<decltype(elements)>::value_type;
        for (std::size_t i = random.between(1, 3); i > 0; --i)
          elements[random.below(elements.size())] = from_double<E>(random.pick({infinity, -infinity, nan}));
      },
      kernel);
}

std::string way_of(const Plan& plan) {
  static const std::regex detail("(direct|panel)( merged)?( packed late)?");
  std::smatch found;
  const std::string text = plan.explain();
  return std::regex_search(text, found, detail) ? found.str() : "";
}

void check_weights(Plan& plan, std::uint64_t seed, std::set<std::string>& ways) {
  Random random(seed);
  Inputs inputs = make_inputs(plan, seed, Fill::signed_unit);
  make_special(random, inputs.kernel);
  const Reference reference = run_reference(plan, inputs, plan.problem().batch_size);
  Tolerance tolerance = tolerance_of(plan.problem().dtype, Float32Precision::ieee);
  for (const bool packed : {false, true}) {
    Execution execution(plan, inputs, {.pack_kernel = packed, .own_workspace = random.chance(50)});
    execution.execute();
    ASSERT_EQ(execution.defect(), "");
    const Comparison comparison = compare(to_channels_first(execution.output(), plan.output_info()), reference.output,
                                          plan.output_info().shape, tolerance, 1);
    ASSERT_TRUE(comparison.ok) << (packed ? "packed, " : "") << way_of(plan) << ": output" << comparison.text;
  }
  ways.insert(way_of(plan));
}

TEST_P(CpuSpecial, ATapThatIsNotFiniteEntersWhatItTouches) {
  std::set<std::string> ways;
  for (std::uint64_t seed = 0; seed < 150 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Plan plan(random_case(seed, {.longest_chain = 0}), {.engine = "cpu"});
    check_weights(plan, seed, ways);
  }
  for (const std::string text : {
           "conv_transpose2d channels=16->96 input=9x9 kernel=3 stride=2 padding=1",
           "conv_transpose2d channels=64->32 input=4x4 kernel=2 stride=2",
           "conv_transpose2d batch=2 channels=3->2 input=20x20 kernel=4 stride=2 padding=1",
           "conv_transpose2d batch=8 channels=64->64 input=3x3 kernel=3 padding=1",
           "conv_transpose1d channels=256->256 input=7 kernel=16 stride=8 padding=4",
           "conv_transpose3d channels=8->8 groups=4 input=5 kernel=3 stride=1x2x3 dilation=2 padding=2",
       }) {
    SCOPED_TRACE(text);
    for (std::uint64_t seed = 0; seed < 5 && !HasFatalFailure(); ++seed) {
      Plan plan = Plan::from_text(text, {.engine = "cpu"});  // one that has packed a kernel keeps it
      check_weights(plan, seed, ways);
    }
  }
  EXPECT_TRUE(ways.contains("direct") && ways.contains("panel")) << "the cases miss a way";
  EXPECT_TRUE(std::any_of(ways.begin(), ways.end(), [](const auto& way) { return way.ends_with("merged"); }));
  EXPECT_TRUE(std::any_of(ways.begin(), ways.end(), [](const auto& way) { return way.ends_with("late"); }));
}

TEST_P(CpuSpecial, TheSmallestCaseOfIt) {
  Plan plan = Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2", {.engine = "cpu"});
  const std::vector<float> input(3, 1), kernel{1, std::numeric_limits<float>::infinity()};
  std::vector<float> output(4);
  plan.execute(Tensors<float>{.input = input, .kernel = kernel, .output = output});
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(output, (std::vector<float>{1, inf, inf, inf}));
}

// ---- Constants.

template <class T>
std::vector<T> through(const std::string& dtype, const std::string& chain, const std::vector<T>& input,
                       const std::vector<std::vector<T>>& operands = {}) {
  const std::string size = std::to_string(input.size());
  Plan plan = Plan::from_text(
      "conv_transpose1d dtype=" + dtype + " channels=1->1 input=" + size + " kernel=1 | " + chain, {.engine = "cpu"});
  std::vector<T> output(input.size());
  const std::vector<T> kernel{1};
  plan.execute(Tensors<T>{.input = input,
                          .kernel = kernel,
                          .output = output,
                          .operands = std::vector<Operand>(operands.begin(), operands.end())});
  return output;
}

TEST_P(CpuSpecial, ConstantsAreMergedWhereTheyStayInRange) {
  const std::vector<float> grown = through<float>("f32", "mul(1e30) | mul(1e30)", {0, 1e-38F, 1});
  EXPECT_EQ(grown[0], 0);
  EXPECT_NEAR(grown[1], 1e22F, 1e16F);
  EXPECT_EQ(grown[2], std::numeric_limits<float>::infinity());
  EXPECT_NEAR(through<float>("f32", "mul(1e-30) | mul(1e-30)", {1e30F})[0], 1e-30F, 1e-36F);
  EXPECT_NEAR(through<float>("f32", "relu | div(1e30) | div(1e30)", {1e30F})[0], 1e-30F, 1e-36F);
  EXPECT_EQ(through<float>("f32", "add(1e20) | mul(1e30)", {-1e20F})[0], 0);
  EXPECT_EQ(through<float>("f32", "mul(1e30) | mul(1e-30) | mul(3)", {7})[0], 21);
  const std::vector<double> doubles = through<double>("f64", "mul(1e200) | mul(1e200)", {0, 1e-300});
  EXPECT_EQ(doubles[0], 0);
  EXPECT_NEAR(doubles[1], 1e100, 1e88);
}

TEST_P(CpuSpecial, OperandsTooAreMergedOnlyInRange) {
  const std::vector<float> large{1e30F}, small{1e-30F};
  for (const std::string before : {"", "relu | "}) {
    const auto grown = through<float>("f32", before + "mul(channel) | mul(channel)", {0, 1e-38F}, {large, large});
    EXPECT_EQ(grown[0], 0);
    EXPECT_NEAR(grown[1], 1e22F, 1e16F);
    EXPECT_NEAR(through<float>("f32", before + "mul(channel) | mul(channel)", {1e30F}, {small, small})[0], 1e-30F,
                1e-36F);
    EXPECT_NEAR(through<float>("f32", before + "mul(channel) | mul(1e30)", {1e-38F}, {large})[0], 1e22F, 1e16F);
  }
}

// ---- The caller's floating-point environment.

#if defined(__GLIBC__) && defined(__x86_64__)
constexpr int traps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

// Planning, packing and executing with traps enabled: any of them would end the process.
TEST_P(CpuSpecial, OrdinaryNumbersTrapNothingAndLeaveNoFlags) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_case(seed);
    Plan first(problem, {.engine = "cpu"});
    const Inputs inputs = make_inputs(first, seed, Fill::signed_unit);
    Execution execution(first, inputs, {.pack_kernel = seed % 2 == 0, .own_workspace = seed % 3 == 0});
    std::feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(traps);
    {
      const Plan plan(problem, {.engine = "cpu"});
      execution.launch();
    }
    const int raised = std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT);  // the test's own arithmetic is inexact
    fedisableexcept(traps);
    EXPECT_EQ(raised, 0);
  }
}

TEST_P(CpuSpecial, RoundingAndFlushingAreTheCallersAfterwards) {
  const unsigned usual = _mm_getcsr();
  for (const unsigned mode : {0x0000U, 0x2000U, 0x4000U, 0x6000U})     // rounding
    for (const unsigned flush : {0x0000U, 0x8000U, 0x0040U, 0x8040U})  // FTZ, DAZ
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        Plan plan(random_case(seed), {.engine = "cpu"});
        const Inputs inputs = make_inputs(plan, seed, Fill::signed_unit);
        Execution execution(plan, inputs);
        const unsigned callers = (usual & ~0xe07fU) | mode | flush | 0x0004U;  // and a flag of the caller's
        _mm_setcsr(callers);
        execution.launch();
        const unsigned after = _mm_getcsr();
        _mm_setcsr(usual);
        EXPECT_EQ(after, callers);
      }
}
#endif

TEST(ShortFloats, RoundToNearestInEveryRoundingMode) {
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    std::fesetround(mode);
    const std::uint16_t down = convt_f16_from_double(1 + 0x1p-11).bits, up = convt_f16_from_double(1 + 0x3p-11).bits;
    const std::uint16_t bf16 = convt_bf16_from_double(-1.00390625).bits, least = convt_f16_from_double(0x1.8p-25).bits;
    const std::uint16_t most = convt_f16_from_double(65519.99).bits, past = convt_f16_from_double(65520).bits;
    const int raised = std::fetestexcept(FE_ALL_EXCEPT);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(down, 0x3c00);
    EXPECT_EQ(up, 0x3c02);
    EXPECT_EQ(bf16, 0xbf80);
    EXPECT_EQ(least, 0x0001);
    EXPECT_EQ(most, 0x7bff);
    EXPECT_EQ(past, 0x7c00);
    EXPECT_EQ(raised, 0);
  }
}

}  // namespace
}  // namespace convt::cli
