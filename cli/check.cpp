// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <regex>
#include <utility>

#include "case_text.hpp"
#include "execution.hpp"
#include "gather.hpp"
#include "print.hpp"
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
  // One NaN makes every output of a norm over space NaN, and nothing would be left to compare.
  for (const std::string_view norm : {"instance_norm", "group_norm", "trailing", "axes="})
    if (v.fill == Fill::special_values && problem.chain.find(norm) != std::string::npos) v.fill = Fill::signed_unit;
  v.execution.own_workspace = random.chance(50);
  v.execution.pack_kernel = random.chance(30);
  v.execution.aligned = random.chance(50);
  // Sums of signed products come close to 0, and what is divided by them has no digits left.
  static const std::regex divisor(R"(div\((?!channel|tensor)[a-z])");
  if (std::regex_search(problem.chain, divisor)) v.fill = Fill::unit;
  return v;
}

bool is_norm(const std::string& op) { return op.find("norm") != std::string::npos; }

// The first ops of a reference's chain, with what rounding errors do to them.
struct Prefix {
  const Reference& reference;
  std::vector<std::string> ops;
  std::vector<double> shifts;  // by op: what is added to its result, either way
  std::vector<double> noises;  // by op: what errors may make of its result
  double unit = 0;
  double input_unit = 0;  // one rounding of the convolution's input

  // How far the result moves when the input and the result of every op move by one rounding, and by its shift.
  double noise() const {
    constexpr std::uint64_t draws = 8;  // in one of them, errors may cancel
    const std::vector<double> exact = run({});
    double noise = 0;
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      const std::vector<double> moved = run(draw);
      for (std::size_t i = 0; i < moved.size(); ++i)
        if (const double difference = std::abs(moved[i] - exact[i]); std::isfinite(difference))
          noise = std::max(noise, difference);
    }
    return noise;
  }

  // Elements that become NaN or infinite, or are no longer so, by a few roundings, or by a 0 in place of what is hardly
  // more than rounding errors: log and sqrt of what should be 0, what is divided by it, what underflows.
  std::vector<bool> doubtful() const {
    constexpr std::uint64_t draws = 4;
    const std::vector<double> exact = run({});
    std::vector<bool> result(exact.size());
    const auto differ = [&](const std::vector<double>& moved) {
      for (std::size_t i = 0; i < moved.size(); ++i)
        if (std::isfinite(moved[i]) != std::isfinite(exact[i]) || std::isnan(moved[i]) != std::isnan(exact[i]))
          result[i] = true;
    };
    Prefix rough = *this;
    rough.unit *= roundings;
    for (double& shift : rough.shifts) shift *= roundings;
    for (std::uint64_t draw = 0; draw < draws; ++draw) differ(rough.run(draw));
    differ(run({}, true));
    return result;
  }

  struct Extent {
    double largest = 0;
    double elements = 0;
  };
  Extent extent() const {
    const std::vector<double> values = run({});
    Extent extent{0, static_cast<double>(values.size())};
    for (const double value : values)
      if (std::isfinite(value)) extent.largest = std::max(extent.largest, std::abs(value));
    return extent;
  }

 private:
  // Exactly, or with errors as they are drawn, or with 0 for all that errors may have made of it.
  std::vector<double> run(std::optional<std::uint64_t> draw, bool flushes = false) const {
    const bool nudges = draw.has_value();
    enum class Operand { own, factor, shift };
    std::vector<std::string> chain;
    std::vector<std::pair<Operand, double>> stages;
    const auto add = [&](const std::string& op, Operand operand, double size) {
      chain.push_back(op);
      stages.emplace_back(operand, size);
    };
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (nudges) add("mul(tensor)", Operand::factor, unit);
      add(ops[i], Operand::own, 0);
      if (nudges && shifts[i] > 0) add("add(tensor)", Operand::shift, shifts[i]);
      if (flushes) add(formatted("hardshrink({})", roundings * noises[i]), Operand::own, 0);
    }
    Problem problem = reference.problem;
    problem.chain = joined(chain, " | ");
    Plan plan(problem, {.engine = "reference"});

    Random random(draw.value_or(0));
    const auto sway = [&](std::size_t count, double middle, double size) {
      std::vector<double> values(count, middle);
      for (double& value : values) value += random.chance(50) ? size : -size;
      return values;
    };
    Inputs inputs{reference.inputs.input, reference.inputs.kernel, {}};
    if (nudges) {
      auto& input = std::get<std::vector<double>>(inputs.input);
      const std::vector<double> factors = sway(input.size(), 1, input_unit);
      std::transform(input.begin(), input.end(), factors.begin(), input.begin(), std::multiplies<>());
    }
    auto original = reference.inputs.operands.begin();
    for (const TensorInfo& info : plan.operand_infos()) {
      const auto [operand, size] = stages[info.stage];
      if (operand == Operand::own)
        inputs.operands.push_back(*original++);
      else
        inputs.operands.push_back(sway(info.elements(), operand == Operand::factor ? 1 : 0, size));
    }
    return execute(plan, inputs);
  }
};

// What rounding errors may grow to in the reference's chain. An op's own arithmetic errs in proportion to what it
// takes, however little it makes of it (gelu of a large negative number); where it folds n elements into one, n times,
// of which some cancel. What a norm makes of moved values still has the mean 0; its own arithmetic errs as much as they
// moved, in any direction.
struct Noise {
  double size = 0;
  std::vector<bool> doubtful;
};
Noise rounding_noise(const Reference& reference, double unit, double input_unit) {
  Prefix prefix{reference, {}, {}, {}, unit, input_unit};
  for (const std::string& op : split_chain(reference.problem.chain)) {
    const Prefix::Extent taken = prefix.extent();
    prefix.ops.push_back(op);
    prefix.shifts.push_back(0);
    const double folded = taken.elements / std::max(1.0, prefix.extent().elements);
    prefix.shifts.back() = is_norm(op) ? prefix.noise() : unit * taken.largest * std::sqrt(std::max(1.0, folded));
    prefix.noises.push_back(prefix.noise());
  }
  return {prefix.noises.empty() ? prefix.noise() : prefix.noises.back(), prefix.doubtful()};
}

// A GPU's engine may have run the prologue in a pass of its own, which rounds its result to the tensors' dtype.
double prologue_unit(const Plan& plan, double unit) {
  if (plan.explain().find("prologue rounded to") == std::string::npos) return unit;
  return plan.problem().dtype == DType::f16 ? 0x1p-11 : plan.problem().dtype == DType::bf16 ? 0x1p-8 : unit;
}

// Nor is it alone: values before a norm over space, or before a pool, may have been stored so. What is stored is moved
// by half a unit, once; of so many roundings this is two of it.
double chain_unit(const Plan& plan, double unit) {
  if (plan.explain().find(", rounded to ") == std::string::npos) return unit;
  const double half = plan.problem().dtype == DType::f16 ? 0x1p-12 : 0x1p-9;
  return std::max(unit, 2 * half / roundings);
}

// Engines but the reference may have moved a sum or an average into the kernel, which is exact in real numbers: of
// Inf - Inf, which is NaN, it makes Inf times a sum of weights. What is not NaN stays what it is.
bool sums_in_kernel(const Plan& plan) {
  return plan.engine() != "reference" && plan.explain().find("moves into the kernel") != std::string::npos;
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
  tolerance.any_for_nan = sums_in_kernel(plan);
  const Sizes& shape = plan.output_info().shape;
  Comparison comparison = compare(output, reference.output, shape, tolerance);
  double noise = 0;
  if (!comparison.ok) {
    Noise found = rounding_noise(reference, chain_unit(plan, tolerance.unit), prologue_unit(plan, tolerance.unit));
    noise = roundings * found.size;
    tolerance.absolute += noise;
    tolerance.doubtful = std::move(found.doubtful);
    comparison = compare(output, reference.output, shape, tolerance);
  }
  // Of a result that is hardly more than rounding errors, it would say nothing.
  if (comparison.largest > 1000 * noise) report.error = comparison.error;
  if (!comparison.ok) report.defect = "against the reference engine in f64, output" + comparison.text;
}

// The convolution's input, channels-first: the prologue before one with a kernel of one 1 per channel.
std::vector<double> run_prologue(const Plan& plan, const Inputs& inputs) {
  const Problem problem = plan.problem();
  Problem alone{.dims = problem.dims,
                .dtype = DType::f64,
                .batch_size = problem.batch_size,
                .in_channels = problem.in_channels,
                .out_channels = problem.in_channels,
                .groups = problem.in_channels,
                .input = problem.input,
                .kernel = {1},
                .prologue = problem.prologue};
  Plan exact(alone, {.engine = "reference"});
  Inputs moved{inputs.input, make_tensor(DType::f64, std::vector<double>(problem.in_channels, 1)), inputs.operands};
  moved.operands.resize(exact.operand_infos().size());
  return execute(exact, convert_inputs(moved, plan, exact));
}

void check_convolution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options, CaseReport& report) {
  const std::vector<double> output = run(plan, inputs, options, report.defect);
  if (!report.defect.empty()) return;
  const Problem problem = plan.problem();
  const Gathered expected = gather_convolution(problem, run_prologue(plan, inputs), to_doubles(inputs.kernel));
  if (expected.shape != plan.output_info().shape) {
    report.defect = formatted("the convolution has shape {}, expected {}", join_sizes(plan.output_info().shape),
                              join_sizes(expected.shape));
    return;
  }
  Tolerance tolerance = tolerance_of(problem.dtype, problem.precision);
  if (const double unit = prologue_unit(plan, 0); unit != 0) tolerance.of_largest += unit;
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
  problem.input_within = problem.output_within = 0;
  Plan exact(problem, {.engine = "reference"});
  reference.inputs = convert_inputs(inputs, plan, exact);
  reference.output = execute(exact, reference.inputs);
  if (problem.prologue.empty()) return reference;
  // Behind the prologue, for those who go on from the oracle's inputs.
  reference.inputs.input = run_prologue(exact, reference.inputs);
  auto& operands = reference.inputs.operands;
  operands.erase(operands.begin(),
                 operands.begin() + std::ranges::count_if(exact.operand_infos(), [](const auto& info) {
                   return info.name.starts_with("prologue.");
                 }));
  problem.prologue.clear();
  return reference;
}

CaseReport check_case(const std::string& text, std::uint64_t seed, const PlanOptions& options, void* stream) {
  Plan plan = Plan::from_text(text, options);
  Problem convolution = plan.problem();
  Variation variation = vary(seed, convolution);
  variation.execution.place = {options.device, options.device_index, stream};
  const Inputs inputs = make_inputs(plan, seed, variation.fill);
  convolution.chain.clear();
  if (convolution.output_within < convolution.out_channels) convolution.output_within = 0;
  // Another plan's candidates need not be its own.
  PlanOptions any_candidate = options;
  any_candidate.engine = options.engine.substr(0, options.engine.find(' '));
  Plan convolution_plan(convolution, any_candidate);
  std::vector<Tensor> operands = inputs.operands;
  operands.resize(convolution_plan.operand_infos().size());

  CaseReport report{.defect = "", .engine = plan.engine(), .dtype = convolution.dtype};
  try {
    check_chain(plan, inputs, variation.execution, report);
    if (!report.defect.empty()) return report;
    check_convolution(convolution_plan, {inputs.input, inputs.kernel, operands}, variation.execution, report);
  } catch (const Error& error) {
    report.defect = formatted("{}: {}", to_string(error.status()), error.what());
  }
  return report;
}

}  // namespace convt::cli
