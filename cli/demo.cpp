// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "case_text.hpp"
#include "commands.hpp"
#include "compare.hpp"
#include "convt/convt.hpp"
#include "dtypes.hpp"
#include "execution.hpp"
#include "options.hpp"
#include "place.hpp"
#include "print.hpp"
#include "samples.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

// Of each problem's output: what takes about as long as the problem itself.
constexpr std::size_t sampled_pixels = 2048;

struct DemoOptions {
  bool reduced = false;
  std::size_t repeat = 2;
  std::uint64_t seed = 1;
  std::string dtype = "f32";
  std::string device = "auto";
};

struct DemoCase {
  std::string name;
  Problem problem;
};

// What is being done, on standard error. A terminal keeps one line, which the table's rows replace.
class Progress {
 public:
  void show(const std::string& text) const {
    if (terminal_)
      std::fputs(("\r\033[K" + text).c_str(), stderr);
    else
      std::fputs((text + "\n").c_str(), stderr);
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
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
    if (once(sizes) != std::to_string(usual)) text += formatted(" {}{}", name, once(sizes));
  };
  add("s", problem.stride, 1);
  add("p", problem.padding, 0);
  add("op", problem.output_padding, 0);
  return text;
}

std::vector<DemoCase> demo_cases(const DemoOptions& options) {
  std::vector<DemoCase> cases;
  for (const NamedProblemDescription& row : named_problems()) {
    DemoCase demo{row.slug, Plan::from_text(options.reduced ? row.demo_case : row.benchmark_case).problem()};
    demo.problem.dtype = dtype_named(options.dtype).value_or(DType::f32);
    cases.push_back(demo);
  }
  return cases;
}

struct DemoResult {
  std::string engine;
  Sizes output;
  double error = 0;
  std::size_t checked = 0;
  double seconds = 0;
  double gflops = 0;  // per second
  std::string defect;
};

template <class Report>
DemoResult run_demo(const Problem& problem, const DemoOptions& options, const PlanOptions& plan_options,
                    const Report& report) {
  Plan plan(problem, plan_options);
  report("making the data");
  const Inputs inputs = make_inputs(plan, options.seed, Fill::unit);
  Execution execution(plan, inputs, {.place = {plan_options.device, plan_options.device_index}});
  double fastest = std::numeric_limits<double>::infinity();
  for (std::size_t run = 1; run <= options.repeat; ++run) {
    report(formatted("run {} of {}", run, options.repeat));
    const auto start = std::chrono::steady_clock::now();
    execution.execute();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  report("checking the result");
  const TensorInfo& output = plan.output_info();
  DemoResult result;
  result.engine = plan.engine();
  result.output = output.shape;
  result.seconds = fastest;
  result.gflops = 2e-9 * plan.products().needed / fastest;
  result.defect = execution.defect();
  const Samples samples = compute_samples(plan, inputs, sample_pixels(plan, sampled_pixels, options.seed));
  const Comparison comparison = compare(execution.output(samples.elements), samples.values, output.shape,
                                        tolerance_of(problem.dtype, problem.precision), 0, samples.elements);
  result.error = comparison.error;
  result.checked = samples.values.size();
  if (result.defect.empty() && !comparison.ok) result.defect = "output" + comparison.text;
  return result;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return formatted("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return formatted("{:.1f} ms", seconds * 1e3);
  return formatted("{:.2f} s", seconds);
}

// No line of the table is longer than 100 columns.
constexpr const char* row_format = "{:<43}  {:>9}  {:>9}  {:>8}  {:>8}  {}\n";

void print_row(const DemoCase& demo, const DemoResult& r) {
  print(row_format, demo.name, duration(r.seconds), formatted("{:.1f}", r.gflops), formatted("{:.1e}", r.error),
        r.checked, r.defect.empty() ? "ok" : "FAIL");
  print("  {} -> {}, engine {}\n", compact(demo.problem), join_sizes(r.output), r.engine);
  if (!r.defect.empty()) print("  {}\n", r.defect);
  std::fflush(stdout);
}

Exit demo(const DemoOptions& options) {
  const std::vector<DemoCase> cases = demo_cases(options);
  PlanOptions plan_options;
  set_device(plan_options, options.device);
  print("the five problems, {}, {}{}\n\n", options.reduced ? "REDUCED sizes" : "the benchmark's own sizes",
        options.dtype, place_text(plan_options));
  print(row_format, "problem", "time", "GFLOP/s", "error", "checked", "verdict");
  std::fflush(stdout);
  const Progress progress;
  Exit code = Exit::ok;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const DemoResult result = run_demo(cases[i].problem, options, plan_options, [&](const std::string& what) {
      progress.show(formatted("{} of {}, {}: {}", i + 1, cases.size(), cases[i].name, what));
    });
    progress.clear();
    print_row(cases[i], result);
    if (!result.defect.empty()) code = Exit::check_failed;
  }
  print(
      "\nBelow each name: input, kernel, stride, padding, output padding -> output.\n"
      "time: the fastest of {} runs. GFLOP/s: 2 per product that the output needs. error: largest |a - b|\n"
      "over largest |b|, against double precision, of the outputs checked: drawn from all images, corners,\n"
      "edges and phases of the stride. The whole output is searched for elements that were not written.\n",
      options.repeat);
  return code;
}

}  // namespace

void add_demo(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("demo", "Run the named problems, check them and time them");
  const auto options = std::make_shared<DemoOptions>();
  sub->add_flag("--reduced", options->reduced, "Small sizes instead of the benchmark's, which take 4 GB of memory");
  sub->add_option("--repeat", options->repeat, "Runs of each, of which the fastest is shown")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}));
  sub->add_option("--seed", options->seed, "Of the inputs, which are uniform in [0, 1)")
      ->capture_default_str()
      ->transform(unsigned_number);
  sub->add_option("--dtype", options->dtype, "Of all tensors")
      ->capture_default_str()
      ->check(CLI::IsMember(dtype_names()));
  sub->add_option("--device", options->device, device_help)->capture_default_str();
  sub->footer(
      "Each problem runs through the engine the library chooses, into an output full of NaN. Some thousands of its\n"
      "outputs are then computed in double precision: the convolution by this command, product by product, and the\n"
      "chain by the reference engine on those values alone.\n"
      "\n"
      "Examples:\n"
      "  convt demo\n"
      "  convt demo --dtype bf16 --repeat 10\n"
      "  convt demo --reduced");
  sub->callback([&command, options] { command = [options] { return demo(*options); }; });
}

}  // namespace convt::cli
