// SPDX-License-Identifier: Apache-2.0
// A transposed convolution written the other way round from the library's reference: for each output, the sum over the
// taps that reach it. An oracle that shares no code with what it checks.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

// A tap of the kernel and the input element that it meets at some output.
struct Meeting {
  std::size_t tap, input;
};
struct GatherAxis {
  std::size_t input = 1, kernel = 1;
  std::vector<std::vector<Meeting>> outputs = {{{0, 0}}};  // of each output: what meets there
};
// D, H, W; missing ones lead, and have one element.
std::array<GatherAxis, 3> gather_axes(const Problem& problem);

struct Gathered {
  Sizes shape;                 // N, C, [D, [H,]] W
  std::vector<double> values;  // channels-first
  double magnitude = 0;        // the largest sum of |product| of an output: what rounding errors are measured by
};

// `input` is channels-first. The problem's chain, layouts and dtype do not matter.
Gathered gather_convolution(const Problem& problem, std::span<const double> input, std::span<const double> kernel);

}  // namespace convt::cli
