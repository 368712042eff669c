// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace convt::cli {

// The closest of `known`, as ": did you mean 'gelu'?", or nothing when none is close.
std::string suggest(const std::string& word, const std::vector<std::string>& known);

}  // namespace convt::cli
