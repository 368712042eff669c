// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "case_text.hpp"
#include "execution.hpp"
#include "gather.hpp"
#include "random.hpp"

namespace convt::cli {
namespace {

// How often a value may be rounded between two ops, and in them: gelu takes about ten operations.
constexpr double roundings = 16;

// How data is drawn and handed over in one case.
struct Variation {
  Fill fill;
  ExecutionOptions execution;
};
Variation vary(std::uint64_t seed, const Problem& problem) {
  Random random(~seed);  // not the stream that drew the case
  Variation v{};
  v.fill = random.pick({Fill::signed_unit, Fill::signed_unit, Fill::signed_unit, Fill::unit, Fill::special_values});
  v.execution.own_workspace = random.chance(50);
  v.execution.pack_kernel = random.chance(30);
  v.execution.guard = random.chance(50) ? 64 : 67;
  // Sums of signed products come close to 0, and what is divided by them has no digits left.
  if (problem.chain.find("div(conv") != std::string::npos) v.fill = Fill::unit;
  return v;
}

// 1 plus or minus `unit`.
double nudge(Random& random, double unit) { return random.chance(50) ? 1 + unit : 1 - unit; }

std::vector<double> nudged(std::vector<double> values, Random& random, double unit) {
  for (double& value : values) value *= nudge(random, unit);
  return values;
}

// How far the reference's result moves when its input and the result of every stage move by one rounding.
double rounding_noise(const Reference& reference, double unit) {
  Problem problem = reference.problem;
  problem.chain.clear();
  for (const std::string& op : split_chain(reference.problem.chain))
    problem.chain += (problem.chain.empty() ? "mul(tensor) | " : " | mul(tensor) | ") + op;
  Plan plan(problem, {.engine = "reference"});

  Random random(0);
  Inputs inputs{reference.inputs.input, reference.inputs.kernel, {}};
  inputs.input = nudged(to_doubles(inputs.input), random, unit);
  auto original = reference.inputs.operands.begin();
  for (const TensorInfo& info : plan.operand_infos()) {
    const bool is_nudge = info.stage % 2 == 0;
    inputs.operands.push_back(is_nudge ? nudged(std::vector<double>(info.elements(), 1.0), random, unit) : *original++);
  }
  const std::vector<double> moved = execute(plan, inputs);
  double noise = 0;
  for (std::size_t i = 0; i < moved.size(); ++i)
    if (const double difference = std::abs(moved[i] - reference.output[i]); std::isfinite(difference))
      noise = std::max(noise, difference);
  return noise;
}

// Runs the plan, watched, to N, C, [D, [H,]] W order. Writes what went wrong to `defect`.
std::vector<double> run(Plan& plan, const Inputs& inputs, const ExecutionOptions& options, std::string& defect) {
  Execution execution(plan, inputs, options);
  execution.execute();
  defect = execution.defect();
  return to_channels_first(execution.output(), plan.output_info());
}

void check_chain(Plan& plan, const Inputs& inputs, const ExecutionOptions& options, CaseReport& report) {
  const std::vector<double> output = run(plan, inputs, options, report.defect);
  if (!report.defect.empty()) return;
  const Problem problem = plan.problem();
  const Reference reference = run_reference(plan, inputs, problem.batch_size);
  Tolerance tolerance = tolerance_of(problem.dtype, problem.precision);
  tolerance.absolute += roundings * rounding_noise(reference, tolerance.unit);
  const Comparison comparison = compare(output, reference.output, plan.output_info().shape, tolerance);
  // Of a result that is hardly more than rounding errors, it would say nothing.
  if (comparison.largest > 1000 * tolerance.absolute) report.error = comparison.error;
  if (!comparison.ok) report.defect = "against the reference engine in f64, output" + comparison.text;
}

void check_convolution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options, CaseReport& report) {
  const std::vector<double> output = run(plan, inputs, options, report.defect);
  if (!report.defect.empty()) return;
  const Problem problem = plan.problem();
  const Gathered expected = gather_convolution(problem, to_channels_first(to_doubles(inputs.input), plan.input_info()),
                                               to_doubles(inputs.kernel));
  if (expected.shape != plan.output_info().shape) {
    report.defect = fmt::format("the convolution has shape {}, expected {}", join_sizes(plan.output_info().shape),
                                join_sizes(expected.shape));
    return;
  }
  const Tolerance tolerance = tolerance_of(problem.dtype, problem.precision);
  const Comparison comparison = compare(output, expected.values, expected.shape, tolerance, expected.magnitude);
  if (!comparison.ok) report.defect = "against the gathering convolution, without the chain, output" + comparison.text;
}

}  // namespace

Reference run_reference(const Plan& plan, const Inputs& inputs, std::size_t images) {
  Reference reference{plan.problem(), {}, {}};
  Problem& problem = reference.problem;
  problem.batch_size = images;
  problem.dtype = DType::f64;
  problem.input_layout = problem.output_layout = Layout::channels_first;
  problem.precision = Float32Precision::ieee;
  Plan exact(problem, {.engine = "reference"});
  reference.inputs = convert_inputs(inputs, plan, exact);
  reference.output = execute(exact, reference.inputs);
  return reference;
}

CaseReport check_case(const std::string& text, std::uint64_t seed, const PlanOptions& options) {
  Plan plan = Plan::from_text(text, options);
  Problem convolution = plan.problem();
  const Variation variation = vary(seed, convolution);
  const Inputs inputs = make_inputs(plan, seed, variation.fill);
  convolution.chain.clear();
  Plan convolution_plan(convolution, options);

  CaseReport report{.defect = "", .engine = plan.engine(), .dtype = convolution.dtype};
  try {
    check_chain(plan, inputs, variation.execution, report);
    if (!report.defect.empty()) return report;
    check_convolution(convolution_plan, {inputs.input, inputs.kernel, {}}, variation.execution, report);
  } catch (const Error& error) {
    report.defect = fmt::format("{}: {}", to_string(error.status()), error.what());
  }
  return report;
}

}  // namespace convt::cli
