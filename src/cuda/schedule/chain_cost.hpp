// SPDX-License-Identifier: Apache-2.0
// What a chain's arithmetic costs, for predictions.
#pragma once

#include <span>

#include "plan/program.hpp"

namespace convt::core::cuda {

// Clocks of one multiprocessor for each value. value_clocks(): in registers, or by threads that have an element each.
// strip_clocks(): in a strip of shared memory.
double value_clocks(std::span<const Step> steps);
double strip_clocks(std::span<const Step> steps);

}  // namespace convt::core::cuda
