// SPDX-License-Identifier: Apache-2.0
// The subcommands: each adds its options and help to the app, and sets `command` to what it does when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace convt::cli {

// What the process exits with.
enum Exit { ok = 0, check_failed = 1, bad_usage = 2, library_error = 3 };

using Command = std::function<Exit()>;

void add_problems(CLI::App& app, Command& command);
void add_ops(CLI::App& app, Command& command);
void add_explain(CLI::App& app, Command& command);
void add_demo(CLI::App& app, Command& command);
void add_verify(CLI::App& app, Command& command);
void add_version(CLI::App& app, Command& command);

}  // namespace convt::cli
