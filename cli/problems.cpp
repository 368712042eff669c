// SPDX-License-Identifier: Apache-2.0

#include <string_view>

#include "commands.hpp"
#include "convt/convt.hpp"
#include "print.hpp"

namespace convt::cli {
namespace {

Exit print_problems() {
  const char* separator = "";
  for (const NamedProblemDescription& problem : named_problems()) {
    const std::string_view chain = problem.chain;
    print("{}{}\n  chain      {}\n  benchmark  {}\n", separator, problem.slug, chain.empty() ? "(none)" : chain,
          problem.benchmark_case);
    separator = "\n";
  }
  return Exit::ok;
}

}  // namespace

void add_problems(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("problems", "The named problems: their chains and benchmark cases");
  sub->footer(
      "Each has a C function per dtype: convt_, the name with '_' instead of '-', and _f32, _f64, _f16 or _bf16. In a\n"
      "chain, scaling_factor and sum_weight stand for that argument, and bias takes conv_bias. Any legal size will "
      "do.\n"
      "\n"
      "Examples:\n"
      "  convt problems\n"
      "  convt explain conv-transpose3d-max-max-sum     how its benchmark case would run");
  sub->callback([&command] { command = print_problems; });
}

}  // namespace convt::cli
