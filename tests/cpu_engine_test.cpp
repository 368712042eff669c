// SPDX-License-Identifier: Apache-2.0
// The CPU engine as a whole, on every instruction set of this machine, with the checks of `convt verify`: against the
// reference engine in f64, and its convolution alone against the command's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "check.hpp"
#include "execution.hpp"
#include "support/engine_cases.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

using convt::testing::explained;
using convt::testing::isas;
using convt::testing::runs_on;

class CpuEngine : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(4); }  // so that plans split channels
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuEngine, ::testing::ValuesIn(isas()), [](const auto& info) { return info.param; });

Plan make_plan(const std::string& text, std::size_t workspace_limit = 0) {
  return Plan::from_text(text, {.engine = "cpu", .workspace_limit = workspace_limit});
}

// The output's bits, in memory order.
std::vector<std::uint64_t> bits(const std::vector<double>& values) {
  std::vector<std::uint64_t> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double x) { return std::bit_cast<std::uint64_t>(x); });
  return result;
}
std::vector<std::uint64_t> run(Plan plan, const Inputs& inputs, const ExecutionOptions& options) {
  Execution execution(plan, inputs, options);
  execution.execute();
  EXPECT_EQ(execution.defect(), "");
  return bits(execution.output());
}

// The ways that a plan goes.
std::set<std::string> ways(const Plan& plan) {
  static const std::regex detail(R"((\d+) images, (\d+) channels, (direct|panel)( merged)?( packed late)?)");
  std::set<std::string> result;
  const std::string text = plan.explain();
  const bool sums = convt::testing::sums_in_kernel(text);
  std::size_t passes = 0;
  for (std::sregex_iterator one(text.begin(), text.end(), detail), end; one != end; ++one, ++passes) {
    const std::smatch& match = *one;
    if (passes == 0) result.insert(match[3]);
    if (match[4].matched) result.insert("merged");
    if (match[5].matched) result.insert("late");
    if (match[1] != "1") result.insert("images");
    if (!sums && std::stoul(match[2]) < plan.problem().out_channels) result.insert("splits");
  }
  if (passes > 1) result.insert("passes");
  for (const char* between : {"store", "recompute"})
    if (explained(text, "chosen").find(between) != std::string::npos) result.insert(between);
  return result;
}

// Checks a case in every way to hand it over, which all give the same bits. Adds the ways it went to `seen`.
void check(const std::string& text, std::uint64_t seed, const std::string& isa, std::set<std::string>& seen) {
  SCOPED_TRACE("convt verify --engine cpu --seed " + std::to_string(seed) + " '" + text + "'");
  const CaseReport report = check_case(text, seed, {.engine = "cpu"});
  EXPECT_EQ(report.defect, "");
  const Plan plan = make_plan(text);
  EXPECT_TRUE(runs_on(plan.explain(), isa)) << plan.explain();
  seen.merge(ways(plan));

  const Inputs inputs = make_inputs(plan, seed, Fill::unit);
  const auto plain = run(make_plan(text), inputs, {});
  EXPECT_EQ(run(make_plan(text), inputs, {.pack_kernel = true}), plain);
  EXPECT_EQ(run(make_plan(text), inputs, {.own_workspace = true, .aligned = false}), plain);
}

void check_all(const std::vector<std::string>& cases, const std::string& isa, const std::set<std::string>& expected) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < cases.size(); ++i) check(cases[i], i, isa, seen);
  for (const std::string& way : expected) EXPECT_TRUE(seen.contains(way)) << "no case goes the way " << way;
}

TEST_P(CpuEngine, RandomCases) {
  std::vector<std::string> cases;
  std::set<std::string> used;
  const auto& chains = convt::testing::chains();
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const convt::testing::DrawnCase drawn = convt::testing::draw_case(seed);
    cases.push_back(drawn.text);
    used.insert(drawn.chain);
  }
  EXPECT_EQ(used, std::set<std::string>(chains.begin(), chains.end()));
  check_all(cases, GetParam(), {"direct", "panel", "merged", "images", "splits"});
}

TEST_P(CpuEngine, Shapes) {
  check_all(convt::testing::shape_cases(), GetParam(), {"direct", "panel", "merged", "images", "splits", "late"});
}

TEST_P(CpuEngine, InfinitiesStayWhereTheyReach) {
  for (const std::string& text : convt::testing::infinity_cases())
    for (std::uint64_t seed = 0; seed < 15; ++seed)
      EXPECT_EQ(check_case(text, seed, {.engine = "cpu"}).defect, "") << "seed " << seed << ": " << text;
}

TEST_P(CpuEngine, WholeImages) { check_all(convt::testing::whole_image_cases(), GetParam(), {"passes"}); }

// ---- Workspace.

// Bytes that a candidate needs, as the refusal for want of workspace says.
std::size_t needed(const std::string& text, const std::string& candidate) {
  try {
    make_plan(text, 1);
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::size_t found = message.find(candidate + ": needs ");
    return found == std::string::npos ? 0 : std::stoul(message.substr(found + candidate.size() + 8));
  }
  return 0;
}

// Threads beyond a call's items have nothing to do: a small call must not pay for them.
TEST_P(CpuEngine, NoRoomForIdleThreads) {
  const std::string text = "conv_transpose3d channels=1->1 input=2 kernel=2 | bias";
  set_num_threads(1);
  const std::size_t alone = make_plan(text).workspace_size();
  set_num_threads(16);
  EXPECT_EQ(make_plan(text).workspace_size(), alone);
}

TEST_P(CpuEngine, LittleWorkspaceRecomputes) {
  const std::string text =
      "conv_transpose2d dtype=bf16 channels=2->8 input=120x110 kernel=3 stride=2 | instance_norm | gelu | max_pool(2)";
  const std::size_t store = needed(text, "cpu " + GetParam() + " store"),
                    recompute = needed(text, "cpu " + GetParam() + " recompute");
  ASSERT_GT(recompute, 0U);
  ASSERT_GT(store, recompute);
  const Plan enough = make_plan(text, store), less = make_plan(text, store - 1);
  EXPECT_EQ(less.workspace_size(), recompute);
  EXPECT_TRUE(ways(less).contains("recompute")) << less.explain();
  EXPECT_THROW(make_plan(text, recompute - 1), Error);
  const Inputs inputs = make_inputs(less, 1, Fill::signed_unit);
  EXPECT_EQ(run(make_plan(text, store - 1), inputs, {.own_workspace = true}),
            run(make_plan(text, store), inputs, {.own_workspace = true}));
  EXPECT_EQ(check_case(text, 3, {.engine = "cpu", .workspace_limit = store - 1}).defect, "");
}

// Outputs too large for a cache are written past it: rows of one phase, of several, and behind a chain.
TEST_P(CpuEngine, LargeOutputs) {
  for (const std::string text : {"conv_transpose2d batch=1 channels=1->3 input=1201x1203 kernel=1",
                                 "conv_transpose2d batch=1 channels=1->3 input=601x603 kernel=2 stride=2",
                                 "conv_transpose2d batch=1 channels=1->3 input=1201x1203 kernel=1 | relu"}) {
    const CaseReport report = check_case(text, 1, {.engine = "cpu"});
    EXPECT_EQ(report.defect, "") << text;
    const Plan plan = make_plan(text);
    const Inputs inputs = make_inputs(plan, 1, Fill::unit);
    EXPECT_EQ(run(make_plan(text), inputs, {.aligned = false}), run(make_plan(text), inputs, {})) << text;
  }
}

}  // namespace
}  // namespace convt::cli
