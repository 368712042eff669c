// SPDX-License-Identifier: Apache-2.0
// Text from fmt's format strings, as a string or on standard output. print.cpp alone compiles fmt, which is header-only
// here and most of the object file of whoever calls it.
#pragma once

#include <fmt/core.h>

#include <iterator>
#include <string>
#include <string_view>

namespace convt::cli {

std::string format_erased(fmt::string_view text, fmt::format_args args);
void print_erased(fmt::string_view text, fmt::format_args args);

// "2 of 3" of ("{} of {}", 2, 3)
template <class... Args>
std::string formatted(fmt::format_string<Args...> text, Args&&... args) {
  return format_erased(text, fmt::make_format_args(args...));
}
template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  print_erased(text, fmt::make_format_args(args...));
}

// "2x3" of {2, 3}
template <class Range>
std::string joined(const Range& range, std::string_view separator) {
  std::string text;
  for (auto it = std::begin(range); it != std::end(range); ++it) {
    if (it != std::begin(range)) text += separator;
    text += formatted("{}", *it);
  }
  return text;
}

}  // namespace convt::cli
