// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the CPU engine has on this machine, and what a plan's explanation says of them.
#pragma once

#include <string>
#include <vector>

#include "convt/convt.h"

namespace convt::testing {

// Names that CONVT_ISA takes here, best first; none where they could not be learnt.
std::vector<std::string> isas();

// What stands behind a word at the beginning of one of an explanation's lines; nothing where there is no such line.
std::string explained(const std::string& text, const std::string& word);

// The plan chosen is the CPU engine's, on that instruction set.
bool runs_on(const std::string& explanation, const std::string& isa);

// A sum over channels moved into the kernel.
bool sums_in_kernel(const std::string& explanation);

}  // namespace convt::testing
