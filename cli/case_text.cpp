// SPDX-License-Identifier: Apache-2.0
#include "case_text.hpp"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <system_error>

#include "print.hpp"

namespace convt::cli {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

std::vector<std::string> split_chain(const std::string& chain) {
  std::vector<std::string> ops;
  std::istringstream parts(chain);
  for (std::string op; std::getline(parts, op, '|');) ops.push_back(trimmed(op));
  return ops;
}

std::string join_sizes(const Sizes& sizes) { return joined(sizes, "x"); }

std::vector<GivenCase> expand_cases(const std::vector<std::string>& arguments) {
  std::vector<GivenCase> cases;
  for (const std::string& argument : arguments) {
    if (argument != "-") {
      cases.push_back({argument});
      continue;
    }
    std::string line;
    errno = 0;
    for (std::size_t number = 1; std::getline(std::cin, line); ++number)
      if (const std::string text = trimmed(line); !text.empty() && text[0] != '#') cases.push_back({line, number});
    if (std::ferror(stdin) != 0)  // std::cin is the same stream, and does not tell this from the end
      throw Error(Status::internal_error,
                  formatted("cannot read standard input: {}", std::generic_category().message(errno)));
  }
  if (cases.empty()) throw Error(Status::invalid_argument, "standard input has no case");
  return cases;
}

}  // namespace convt::cli
