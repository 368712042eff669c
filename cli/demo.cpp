// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "case_text.hpp"
#include "check.hpp"
#include "commands.hpp"
#include "compare.hpp"
#include "convt/convt.hpp"
#include "dtypes.hpp"
#include "execution.hpp"
#include "options.hpp"
#include "place.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

struct DemoOptions {
  bool full = false;
  std::size_t repeat = 0;  // 0: one run at the benchmark's sizes, else three
  std::uint64_t seed = 1;
  std::string dtype = "f32";
  std::string device = "auto";
};

struct DemoCase {
  std::string name;
  std::string benchmark_shape;
  Problem problem;
};

// "1x64x48x48 k3x7 s2": the input's shape, and what differs from the defaults; equal sizes are written once.
std::string compact(const Problem& problem) {
  Sizes input{problem.batch_size, problem.in_channels};
  for (std::size_t axis = 0; axis < problem.dims; ++axis) input.push_back(on_axis(problem.input, axis));
  const auto once = [](const Sizes& sizes) {
    const bool equal = std::all_of(sizes.begin(), sizes.end(), [&](std::size_t size) { return size == sizes[0]; });
    return join_sizes(equal ? Sizes{sizes[0]} : sizes);
  };
  std::string text = join_sizes(input) + " k" + once(problem.kernel);
  const auto add = [&](const char* name, const Sizes& sizes, std::size_t usual) {
    if (once(sizes) != std::to_string(usual)) text += fmt::format(" {}{}", name, once(sizes));
  };
  add("s", problem.stride, 1);
  add("p", problem.padding, 0);
  add("op", problem.output_padding, 0);
  return text;
}

std::vector<DemoCase> demo_cases(const DemoOptions& options) {
  std::vector<DemoCase> cases;
  for (const NamedProblemDescription& row : named_problems()) {
    const Problem benchmark = Plan::from_text(row.benchmark_case).problem();
    DemoCase demo{row.slug, compact(benchmark), benchmark};
    if (!options.full) demo.problem = Plan::from_text(row.demo_case).problem();
    demo.problem.dtype = dtype_named(options.dtype).value_or(DType::f32);
    cases.push_back(demo);
  }
  return cases;
}

struct DemoResult {
  std::string engine;
  double error = 0;
  double seconds = 0;
  double gflops = 0;  // per second
  std::string defect;
};

DemoResult run_demo(const Problem& problem, const DemoOptions& options, const PlanOptions& plan_options) {
  Plan plan(problem, plan_options);
  const Inputs inputs = make_inputs(plan, options.seed, Fill::unit);
  Execution execution(plan, inputs, {.place = {plan_options.device, plan_options.device_index}});
  std::vector<double> seconds;
  const std::size_t runs = options.repeat != 0 ? options.repeat : options.full ? 1 : 3;
  while (seconds.size() < runs) {
    const auto start = std::chrono::steady_clock::now();
    execution.execute();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const auto median = seconds.begin() + static_cast<std::ptrdiff_t>(runs / 2);
  std::nth_element(seconds.begin(), median, seconds.end());
  DemoResult result{plan.engine(), 0, *median, 2e-9 * plan.products().needed / *median, execution.defect()};

  const std::size_t images = options.full ? 1 : problem.batch_size;
  const Reference reference = run_reference(plan, inputs, images);
  const Comparison comparison = compare(execution.output(reference.output.size()), reference.output,
                                        plan.output_info().shape, tolerance_of(problem.dtype, problem.precision));
  result.error = comparison.error;
  if (result.defect.empty() && !comparison.ok) result.defect = "output" + comparison.text;
  return result;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

constexpr const char* row_format = "{:<43}  {:<29}  {:<17}  {:<10}  {:>8}  {:>9}  {:>8}  {}\n";

void print_notes(const std::vector<DemoCase>& cases, const DemoOptions& options) {
  fmt::print(
      "\nshape: the input's, then kernel, stride, padding, output padding. error: largest |a - b| over largest "
      "|b|,\nagainst the reference engine in f64 on the same inputs. GFLOP/s: 2 per product that the output "
      "needs.\n");
  if (options.full) {
    fmt::print("These are the benchmark's own sizes. Only the first image of each batch is checked.\n");
    return;
  }
  fmt::print("Sizes are reduced, so that this takes seconds. The benchmark's own, run by convt demo --full:\n");
  for (const DemoCase& demo : cases) fmt::print("  {:<43}  {}\n", demo.name, demo.benchmark_shape);
}

Exit demo(const DemoOptions& options) {
  const std::vector<DemoCase> cases = demo_cases(options);
  PlanOptions plan_options;
  set_device(plan_options, options.device);
  fmt::print("the five problems, {}, {}{}\n\n", options.full ? "benchmark sizes" : "REDUCED sizes", options.dtype,
             place_text(plan_options));
  fmt::print(row_format, "problem", "shape", "output", "engine", "error", "time", "GFLOP/s", "verdict");
  Exit code = Exit::ok;
  for (const DemoCase& demo : cases) {
    std::fflush(stdout);
    const DemoResult r = run_demo(demo.problem, options, plan_options);
    const std::string output = join_sizes(Plan(demo.problem).output_info().shape);
    fmt::print(row_format, demo.name, compact(demo.problem), output, r.engine, fmt::format("{:.1e}", r.error),
               duration(r.seconds), fmt::format("{:.2f}", r.gflops), r.defect.empty() ? "ok" : "FAIL: " + r.defect);
    if (!r.defect.empty()) code = Exit::check_failed;
  }
  print_notes(cases, options);
  return code;
}

}  // namespace

void add_demo(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("demo", "Run the named problems, check them and time them");
  const auto options = std::make_shared<DemoOptions>();
  sub->add_flag("--full", options->full, "The benchmark's sizes instead of reduced ones; checks the first image");
  sub->add_option("--repeat", options->repeat, "Runs of each, of which the median is shown [3; with --full 1]")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}));
  sub->add_option("--seed", options->seed, "Of the inputs, which are uniform in [0, 1)")
      ->capture_default_str()
      ->transform(unsigned_number);
  sub->add_option("--dtype", options->dtype, "Of all tensors")
      ->capture_default_str()
      ->check(CLI::IsMember(dtype_names()));
  sub->add_option("--device", options->device, device_help)->capture_default_str();
  sub->footer(
      "Each problem runs through the engine the library chooses, into an output full of NaN, and is compared with the\n"
      "reference engine in f64: where that engine is itself the choice, this checks rounding alone, and the project's\n"
      "tests compare it with PyTorch. With --full the reference takes about 20 minutes.\n"
      "\n"
      "Examples:\n"
      "  convt demo\n"
      "  convt demo --dtype bf16 --repeat 10\n"
      "  convt demo --full");
  sub->callback([&command, options] { command = [options] { return demo(*options); }; });
}

}  // namespace convt::cli
