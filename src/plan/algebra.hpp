// SPDX-License-Identifier: Apache-2.0
// What the parts of a program share: the rewrites that make it, its evaluation and its kernel.
#pragma once

#include <array>
#include <optional>

#include "plan/line.hpp"
#include "plan/program.hpp"
#include "plan/taps.hpp"

namespace convt::core {

// The operands of an Affine's part at one channel; those of a batch norm are the most.
using OperandValues = std::array<double, 4>;

// What a stage becomes; tensors have this type.
void add_steps(std::vector<Step>& steps, const Stage& stage, convt_dtype dtype);

// What a part makes of a line, for a part that reduces nothing.
Line apply(const Affine::Part& part, Line line, const OperandValues& operands);
// What planning knows of it, for all channels. A number that is not known, because an operand holds it or it is not
// finite, is NaN.
Line planned(const Affine& affine);

// A fold that is a sum times a number: over channels or over windows of `count` elements. Nothing for any other op.
std::optional<double> linear_reduction(const Op& op, std::int64_t count);
std::optional<double> linear_pool(const Op& op, double count);

// Places of a tap of the asked convolution in one whose outputs are windows of its result; see taps.hpp.
inline TapRun windowed_places(const Convolution& c, std::size_t axis, std::int64_t tap, std::int64_t window,
                              std::int64_t stride) {
  return windowed_places(tap * c.dilation[axis] - c.padding[axis], window, stride);
}

}  // namespace convt::core
