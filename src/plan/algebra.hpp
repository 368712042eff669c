// SPDX-License-Identifier: Apache-2.0
// What the parts of a program share: the rewrites that make it, its evaluation and its kernel.
#pragma once

#include <array>
#include <optional>

#include "plan/line.hpp"
#include "plan/program.hpp"

namespace convt::core {

// The operands of an Affine's part at one channel; those of a batch norm are the most.
using OperandValues = std::array<double, 4>;

// What a part makes of a line, for a part that reduces nothing.
Line apply(const Affine::Part& part, Line line, const OperandValues& operands);

// A fold that is a sum times a number: over channels or over windows of `count` elements. Nothing for any other op.
std::optional<double> linear_reduction(const Op& op, std::int64_t count);
std::optional<double> linear_pool(const Op& op, double count);

// Places [first, first + count) along one axis.
struct TapRun {
  std::int64_t first = 0, count = 0;
};
// Behind windows of the convolution's result, `stride` apart: an output o = i*c.stride + tap*dilation - padding is in
// window i*(c.stride/stride) + m for these places m = (tap*dilation - padding - j)/stride, 0 <= j < window where that
// divides. c.stride is a multiple of `stride`.
TapRun windowed_places(const Convolution& c, std::size_t axis, std::int64_t tap, std::int64_t window,
                       std::int64_t stride);

}  // namespace convt::core
