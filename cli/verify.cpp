// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "case_text.hpp"
#include "check.hpp"
#include "commands.hpp"
#include "convt/convt.hpp"
#include "dtypes.hpp"
#include "options.hpp"
#include "place.hpp"
#include "print.hpp"
#include "random_case.hpp"

namespace convt::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> given;
  std::size_t cases = 200;
  std::uint64_t seed = std::random_device{}();
  std::string dtype = "any";
  std::string engine;
  std::string device = "auto";
  std::size_t chain_length = 4;
  bool list = false;
};

// Case i has the seed `options.seed + i`, for its shape and for its data.
std::vector<GivenCase> cases_of(const VerifyOptions& options) {
  if (!options.given.empty()) return expand_cases(options.given);
  std::vector<GivenCase> cases;
  for (std::uint64_t i = 0; i < options.cases; ++i) {
    const Problem problem = random_case(options.seed + i, {dtype_named(options.dtype), options.chain_length});
    cases.push_back({Plan(problem, {.engine = "reference"}).text()});
  }
  return cases;
}

struct Tally {
  std::size_t passed = 0, failed = 0;
  std::string rejection;  // why the engine took none of the cases it skipped
  std::size_t skipped = 0;
  std::map<std::string, std::size_t> engines;
  std::map<DType, double> errors;
};

// What of the command line makes these options.
std::string flags_of(const PlanOptions& options) {
  return (options.engine.empty() ? "" : " --engine '" + options.engine + "'") +
         (options.device == Device::cpu ? "" : formatted(" --device cuda:{}", options.device_index));
}

void verify_one(const GivenCase& one, std::uint64_t seed, const PlanOptions& options, Tally& tally) {
  CaseReport report;
  try {
    report = with_text(one, [&](const std::string& text) { return check_case(text, seed, options); });
  } catch (const Error& error) {
    if (error.status() != Status::unsupported) throw;
    ++tally.skipped;
    tally.rejection = error.what();
    return;
  }
  ++tally.engines[report.engine];
  double& worst = tally.errors[report.dtype];
  worst = std::max(worst, report.error);
  if (report.defect.empty()) {
    ++tally.passed;
    return;
  }
  ++tally.failed;
  print("FAIL seed {}: {}\n  {}: {}\n  rerun: convt verify --seed {}{} '{}'\n", seed, one.text, report.engine,
        report.defect, seed, flags_of(options), one.text);
  std::fflush(stdout);
}

Exit print_summary(const Tally& tally) {
  for (const auto& [engine, count] : tally.engines) print("engine {}: {} cases\n", engine, count);
  for (const auto& [dtype, error] : tally.errors)
    print("{}: largest error {:.2g} of the largest element\n", to_string(dtype), error);
  print("{} passed, {} failed", tally.passed, tally.failed);
  if (tally.skipped != 0) print(", {} skipped ({})", tally.skipped, tally.rejection);
  print("\n");
  if (tally.failed != 0) return Exit::check_failed;
  if (tally.passed == 0 && tally.skipped != 0) throw Error(Status::unsupported, tally.rejection);
  return Exit::ok;
}

Exit verify(const VerifyOptions& options) {
  const std::vector<GivenCase> cases = cases_of(options);
  if (options.list) {
    for (const GivenCase& one : cases) print("{}\n", one.text);
    return Exit::ok;
  }
  PlanOptions plan_options{.engine = options.engine};
  set_device(plan_options, options.device);
  print("seed {}, {} {} cases{}\n", options.seed, cases.size(), options.given.empty() ? "random" : "given",
        place_text(plan_options));
  std::fflush(stdout);
  Tally tally;
  for (std::size_t i = 0; i < cases.size(); ++i) verify_one(cases[i], options.seed + i, plan_options, tally);
  return print_summary(tally);
}

}  // namespace

void add_verify(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("verify", "Check random or given cases against an oracle");
  const auto options = std::make_shared<VerifyOptions>();
  sub->add_option("CASE", options->given, "Check these instead of random ones; - reads them from standard input");
  sub->add_option("--cases", options->cases, "How many random cases")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}));
  sub->add_option("--seed", options->seed, "Of the first case and its data; the next case has the next seed [random]")
      ->transform(unsigned_number);
  sub->add_option("--dtype", options->dtype, "Of random cases")
      ->capture_default_str()
      ->check(CLI::IsMember(dtype_names({"any"})));
  sub->add_option("--engine", options->engine, "Check this engine instead of the one a plan chooses");
  sub->add_option("--device", options->device, device_help)->capture_default_str();
  sub->add_option("--chain-length", options->chain_length, "Longest chain of random cases")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{32}));
  sub->add_flag("--list", options->list, "Print the cases, one per line, and run nothing");
  sub->footer(
      "Every case runs on random data into an output full of NaN, with guards around all memory, sometimes with NaN "
      "and\n"
      "Inf in the data, a packed kernel, tensors aligned to elements only, or a workspace of exactly the size asked "
      "for. Its result is compared with the\n"
      "reference engine in f64; its convolution alone with one that is part of this command. Allowed, of the largest\n"
      "magnitude: f64 1e-12, f32 1e-5 (tf32 2e-3), f16 and bf16 1e-5 and 2^-10 or 2^-7 of the element; and what\n"
      "rounding errors grow to in chains that amplify them. NaN and Inf are put into the input and into operands of "
      "its\n"
      "rank alone, since plans fold the others for finite values; where they move a sum or an average into the kernel\n"
      "(explain says so), elements that are Inf - Inf may be anything. A failure prints the command that repeats it.\n"
      "\n"
      "Examples:\n"
      "  convt verify --cases 1000 --seed 7\n"
      "  convt verify --dtype bf16 --chain-length 8 --engine reference\n"
      "  convt verify 'conv_transpose1d channels=2->3 input=5 kernel=4 stride=3 | softmax'\n"
      "  convt verify - < cases.txt");
  sub->callback([sub, &command, options] {
    for (const char* name : {"--cases", "--dtype", "--chain-length"})
      if (!options->given.empty() && sub->count(name) != 0)
        throw CLI::ValidationError(name, "is for random cases, but a CASE is given");
    command = [options] { return verify(*options); };
  });
}

}  // namespace convt::cli
