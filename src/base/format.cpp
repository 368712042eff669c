// SPDX-License-Identifier: Apache-2.0
#include "base/format.hpp"

#include <fmt/format.h>

namespace convt::core {

std::string format_erased(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace convt::core
