// SPDX-License-Identifier: Apache-2.0
// A transposed convolution written the other way round from the library's reference: for each output, the sum over the
// taps that reach it. An oracle that shares no code with what it checks.
#pragma once

#include <span>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

struct Gathered {
  Sizes shape;                 // N, C, [D, [H,]] W
  std::vector<double> values;  // channels-first
  double magnitude = 0;        // the largest sum of |product| of an output: what rounding errors are measured by
};

// `input` is channels-first. The problem's chain, layouts and dtype do not matter.
Gathered gather_convolution(const Problem& problem, std::span<const double> input, std::span<const double> kernel);

}  // namespace convt::cli
