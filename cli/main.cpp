// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "commands.hpp"
#include "convt/convt.hpp"
#include "print.hpp"

namespace {

using namespace convt::cli;  // NOLINT(google-build-using-namespace)

// Messages repeat what they were given; of that no control byte reaches a terminal.
std::string visible(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? formatted("\\x{:02x}", byte) : std::string(1, c);
  }
  return result;
}

// Never throws for a standard error that cannot be written: the exit code still says it.
int complain(Exit code, std::string_view message) {
  std::fflush(stdout);
  std::fputs(("convt: " + visible(message) + "\n").c_str(), stderr);
  return code;
}

int complain_of_output(int error) {
  return complain(library_error, "cannot write to standard output: " + std::generic_category().message(error));
}

// A closed standard stream leaves its number to the next file that is opened, which would then be written to.
void occupy_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
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
      "  convt demo                 the five named problems, checked and timed\n"
      "  convt ops                  the operations that may follow a convolution\n"
      "  convt explain 'CASE'       shapes, work and the engine that would run\n"
      "  convt verify               random cases against an oracle\n"
      "  convt SUBCOMMAND --help    more about one of them\n"
      "\n"
      "Exit codes: 0 ok, 1 a check failed, 2 bad usage or bad case, 3 another error.");
  app.set_version_flag("--version", formatted("convt {}", convt::version()), "Same as the subcommand version");
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
  } catch (const CLI::ExtrasError&) {  // whose text has them in reverse
    return complain(bad_usage, formatted("not expected: {}; see convt --help", joined(app.remaining(true), " ")));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // of --help and --version
      std::ostringstream text;
      const int code = app.exit(error, text, text);
      print("{}", text.str());
      return code;
    }
    return complain(bad_usage, formatted("{}; see convt --help", error.what()));
  }
  if (!command) return complain(bad_usage, "a subcommand is required; see convt --help");
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  try {
    const int code = run(argc, argv);
    // What stands in a buffer is written here, or not at all.
    if (std::fflush(stdout) != 0) return complain_of_output(errno);
    if (std::ferror(stdout) != 0) return complain_of_output(EIO);
    return code;
  } catch (const std::system_error& error) {  // of fmt, when it cannot print
    return complain_of_output(error.code().value());
  } catch (const convt::Error& error) {
    return complain(error.status() == convt::Status::invalid_argument ? bad_usage : library_error, error.what());
  } catch (const std::bad_alloc&) {
    return complain(library_error, "host memory ran out");
  } catch (const std::exception& error) {
    return complain(library_error, error.what());
  }
}
