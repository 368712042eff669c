// SPDX-License-Identifier: Apache-2.0
// Cases as text: where they come from, and their parts.
#pragma once

#include <string>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

// The entry of a parameter that may have one for all axes.
inline std::size_t on_axis(const Sizes& sizes, std::size_t axis) { return sizes.size() == 1 ? sizes[0] : sizes[axis]; }

// The ops of a chain, one by one.
std::vector<std::string> split_chain(const std::string& chain);

// "16x32x32"
std::string join_sizes(const Sizes& sizes);

struct GivenCase {
  std::string text;
  std::size_t line = 0;  // of standard input; 0: an argument
};

// Replaces "-" by the lines of standard input, without empty ones and those that start with '#'. Throws convt::Error
// when nothing is left.
std::vector<GivenCase> expand_cases(const std::vector<std::string>& arguments);

// Runs f on the case's text; an error says on which line the case stands.
template <class F>
auto with_text(const GivenCase& given, F f) {
  try {
    return f(given.text);
  } catch (const Error& error) {
    if (given.line == 0) throw;
    throw Error(error.status(), "line " + std::to_string(given.line) + ": " + error.what());
  }
}

}  // namespace convt::cli
