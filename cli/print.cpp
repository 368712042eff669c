// SPDX-License-Identifier: Apache-2.0
#include "print.hpp"

#include <fmt/format.h>

namespace convt::cli {

std::string format_erased(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }
void print_erased(fmt::string_view text, fmt::format_args args) { fmt::vprint(text, args); }

}  // namespace convt::cli
