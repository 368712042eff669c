// SPDX-License-Identifier: Apache-2.0
// Random cases of the whole vocabulary, on whichever GPU engine the planner chooses, on the model of the hardware.
//   CONVT_MODEL_CASES  how many (200)
//   CONVT_MODEL_SEED   of the first (1)
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "check.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/machine.hpp"
#include "random_case.hpp"

namespace convt::testing {
namespace {

std::uint64_t variable(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(HopperModelRandom, CasesAgreeWithTheReference) {
  const std::uint64_t count = variable("CONVT_MODEL_CASES", 200), first = variable("CONVT_MODEL_SEED", 1);
  std::map<std::string, int> engines;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Problem problem = cli::random_case(seed);
    if (problem.dtype == DType::f32 && seed % 3 == 0) problem.precision = Float32Precision::tf32;
    const std::string text = Plan(problem, {.engine = "reference"}).text();
    hopper_model::set_schedule({seed % 2 == 0, seed});
    try {
      const cli::CaseReport report = cli::check_case(text, seed, {.device = Device::cuda});
      ++engines[report.engine];
      EXPECT_EQ(report.defect, "") << text << ", seed " << seed;
    } catch (const Error& error) {
      ADD_FAILURE() << text << ", seed " << seed << ": " << error.what();
    }
  }
  EXPECT_EQ(engines.count("reference") + engines.count("cpu"), 0U);
  for (const auto& [engine, cases] : engines) std::printf("%d on %s\n", cases, engine.c_str());
}

}  // namespace
}  // namespace convt::testing
