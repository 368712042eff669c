// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "commands.hpp"
#include "convt/convt.hpp"

namespace convt::cli {

void add_version(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("version", "Version of the library that is loaded");
  sub->callback([&command] {
    command = [] {
      fmt::print("convt {}\n", convt::version());
      return Exit::ok;
    };
  });
}

}  // namespace convt::cli
