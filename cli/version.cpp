// SPDX-License-Identifier: Apache-2.0

#include "commands.hpp"
#include "convt/convt.hpp"
#include "print.hpp"

namespace convt::cli {

void add_version(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("version", "Version of the library that is loaded");
  sub->callback([&command] {
    command = [] {
      print("convt {}\n", convt::version());
      return Exit::ok;
    };
  });
}

}  // namespace convt::cli
