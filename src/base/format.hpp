// SPDX-License-Identifier: Apache-2.0
// Text from fmt's format strings. fmt is header-only here, and whoever calls it compiles most of it: nine tenths of an
// object file. So format.cpp alone does.
#pragma once

#include <fmt/core.h>

#include <iterator>
#include <string>
#include <string_view>

namespace convt::core {

std::string format_erased(fmt::string_view text, fmt::format_args args);

// "2 of 3" of ("{} of {}", 2, 3)
template <class... Args>
std::string formatted(fmt::format_string<Args...> text, Args&&... args) {
  return format_erased(text, fmt::make_format_args(args...));
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

}  // namespace convt::core
