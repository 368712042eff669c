// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <string>
#include <vector>

#include "case_text.hpp"
#include "commands.hpp"
#include "convt/convt.hpp"
#include "place.hpp"
#include "print.hpp"
#include "suggest.hpp"

namespace convt::cli {
namespace {

struct ExplainOptions {
  std::string what;
  std::string engine;
  std::string device = "cpu";
};

// The benchmark case of a named problem; any other text stands for itself.
std::string case_of(const std::string& what) {
  std::vector<std::string> names;
  for (const NamedProblemDescription& problem : named_problems()) {
    if (problem.slug == what) return problem.benchmark_case;
    names.emplace_back(problem.slug);
  }
  if (const std::string close = suggest(what, names); !close.empty())
    throw Error(Status::invalid_argument, formatted("no problem is named '{}'{}", what, close));
  return what;
}

Exit explain(const ExplainOptions& given) {
  PlanOptions options{.engine = given.engine};
  set_device(options, given.device);
  const char* separator = "";
  for (const GivenCase& one : expand_cases({given.what})) {
    const Plan plan = with_text(one, [&](const std::string& what) { return Plan::from_text(case_of(what), options); });
    print("{}{}", separator, plan.explain());
    separator = "\n";
  }
  return Exit::ok;
}

}  // namespace

void add_explain(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("explain", "How a case would run: shapes, operands, work, engines");
  const auto options = std::make_shared<ExplainOptions>();
  sub->add_option("CASE", options->what,
                  "A case, the name of a problem (its benchmark case), or - to read cases from standard input")
      ->required();
  sub->add_option("--engine", options->engine, "Ask this engine alone, or take this one of its candidates");
  sub->add_option("--device", options->device, device_help)->capture_default_str();
  sub->footer(
      "Nothing is computed. Cases on standard input stand one per line; empty lines and # comments are skipped.\n"
      "\n"
      "Examples:\n"
      "  convt explain conv-transpose3d-layernorm-gelu-scaling\n"
      "  convt explain 'conv_transpose2d channels=3->8 input=16 kernel=3 stride=2 | bias | gelu' --engine reference\n"
      "  convt verify --list --cases 3 | convt explain -");
  sub->callback([&command, options] { command = [options] { return explain(*options); }; });
}

}  // namespace convt::cli
