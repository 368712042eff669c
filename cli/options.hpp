// SPDX-License-Identifier: Apache-2.0
// What several subcommands ask of their options.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace convt::cli {

// A transform: digits alone, up to 2^64 - 1. strtoull, which CLI11 asks, takes -1 for that, and it for what is larger.
inline const CLI::Validator unsigned_number(
    [](std::string& text) -> std::string {
      std::uint64_t number = 0;
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, number);
      if (error == std::errc() && stop == end) {
        text = std::to_string(number);  // a leading 0 would make it octal
        return "";
      }
      return "must be an integer from 0 to 2^64 - 1 (got '" + text + "')";
    },
    "UINT");

}  // namespace convt::cli
