// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "commands.hpp"
#include "convt/convt.hpp"

namespace {

using namespace convt::cli;  // NOLINT(google-build-using-namespace)

int complain(Exit code, const char* message) {
  std::fflush(stdout);
  fmt::print(stderr, "convt: {}\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app{
      "convt computes a transposed convolution and everything that follows it in one call.\n"
      "This command shows what the library knows, how it would run a case, and that its results are right.",
      "convt"};
  app.footer(
      "A case is one line of text:\n"
      "  conv_transpose2d dtype=f32 batch=2 channels=3->8 input=16x16 kernel=3 stride=2 padding=1 | bias | relu\n"
      "First the convolution: dtype (f32 f64 f16 bf16), layout (channels_first, channels_last or A->B), precision,\n"
      "batch, channels=IN->OUT, input, kernel, stride, padding, output_padding, dilation, groups. Then any number of\n"
      "operations, each behind a '|'. Quote it: the shell would read '|' and '>' itself.\n"
      "\n"
      "Start with:\n"
      "  convt demo                 the five named problems at reduced sizes, checked and timed\n"
      "  convt ops                  the operations that may follow a convolution\n"
      "  convt explain 'CASE'       shapes, work and the engine that would run\n"
      "  convt verify               random cases against an oracle\n"
      "  convt SUBCOMMAND --help    more about one of them\n"
      "\n"
      "Exit codes: 0 ok, 1 a check failed, 2 bad usage or bad case, 3 another error of the library.");
  app.require_subcommand(0, 1);
  Command command;
  add_problems(app, command);
  add_ops(app, command);
  add_explain(app, command);
  add_demo(app, command);
  add_verify(app, command);
  add_version(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(bad_usage, fmt::format("{}; see convt --help", error.what()).c_str());
  }
  if (!command) return complain(bad_usage, "a subcommand is required; see convt --help");
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const convt::Error& error) {
    return complain(error.status() == convt::Status::invalid_argument ? bad_usage : library_error, error.what());
  } catch (const std::bad_alloc&) {
    return complain(library_error, "host memory ran out");
  } catch (const std::exception& error) {
    return complain(library_error, error.what());
  }
}
