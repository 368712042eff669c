// SPDX-License-Identifier: Apache-2.0
// Sums and averages over all of space behind linear steps. The sum over space of a convolution is linear in the input:
// it is the sum over input channels and taps of a weight times the sum of the inputs that its tap takes to the output.
// These inputs are a box. Cells, which begin and end where some tap's box does, divide the input: each box consists of
// whole cells. So engines sum cells in one pass over the input, and no convolution is computed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/phases.hpp"
#include "plan/program.hpp"

namespace convt::core {

// A program that folds all of space, as one whose convolution has one result pixel: `factor` times the sum over all
// pixels of the convolution. Its steps are those that are left to be done with this pixel.
struct SpaceSum {
  std::shared_ptr<const Program> program;  // null where there is none
  double factor = 1;
  std::string rejection;  // why there is none
};
SpaceSum sum_over_space(const Program& program);

// One axis of the input in cells.
struct CellAxis {
  std::vector<std::int64_t> ends;  // the first input of each cell, then the end of the last
  std::vector<Interval> taps;      // the cells of each tap's box
  std::int64_t cells() const { return static_cast<std::int64_t>(ends.size()) - 1; }
};
// The taps of the axis must be few enough to list.
CellAxis cells_of(const Convolution& convolution, std::size_t axis);

// The line that explain has of it.
std::string explain_sums(std::int64_t taps, std::int64_t cells);

}  // namespace convt::core
