// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "convt/convt.hpp"
#include "print.hpp"
#include "suggest.hpp"

namespace convt::cli {
namespace {

Exit print_all() {
  constexpr std::size_t width = 32;  // longer signatures have a line of their own
  for (const OpDescription& op : ops()) {
    const std::string_view signature = op.signature;
    if (signature.size() > width)
      print("{}\n{:<{}}  {}\n", signature, "", width, op.about);
    else
      print("{:<{}}  {}\n", signature, width, op.about);
  }
  return Exit::ok;
}

Exit print_one(const std::string& name) {
  const std::vector<OpDescription> all = ops();
  const auto op = std::find_if(all.begin(), all.end(), [&](const OpDescription& row) { return row.name == name; });
  if (op == all.end()) {
    std::vector<std::string> names;
    for (const OpDescription& row : all) names.emplace_back(row.name);
    const std::string close = suggest(name, names);
    throw Error(Status::invalid_argument,
                formatted("no operation is named '{}'{}", name, close.empty() ? "; convt ops lists them" : close));
  }
  print(
      "{}\n  {}\n\nin PyTorch (F is torch.nn.functional; max_pool and avg_pool are its 1d, 2d or 3d ones)\n  "
      "{}\n\nexamples\n",
      op->signature, op->about, op->torch);
  std::istringstream lines(op->examples);
  for (std::string line; std::getline(lines, line);) print("  {}\n", line);
  return Exit::ok;
}

}  // namespace

void add_ops(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("ops", "The operations that may follow a convolution");
  const auto name = std::make_shared<std::string>();
  sub->add_option("NAME", *name, "Say all about this one: what it does, the same in PyTorch, uses of it");
  sub->footer(
      "Examples:\n"
      "  convt ops\n"
      "  convt ops layer_norm");
  sub->callback([&command, name] { command = [name] { return name->empty() ? print_all() : print_one(*name); }; });
}

}  // namespace convt::cli
