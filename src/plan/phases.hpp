// SPDX-License-Identifier: Apache-2.0
// The convolution, axis by axis, as dense products over the input.
//
// Output o of an axis lies at u = o + padding = q*stride + r: it is in phase r, at position q. It sees input i through
// tap k where k*dilation = u - i*stride, so only taps with k*dilation = r (mod stride), and of those, tap k at input
// i = q - shift with shift = (k*dilation - r)/stride. Outputs of one phase are thus a correlation of the input with the
// phase's taps; no zero is multiplied and nothing is scattered.
//
// A class is one phase, or all phases of an axis that have the same shifts, merged: their outputs are rows of one
// product. Merging pays where there are too few output channels to fill the microkernel's rows. With kernel a multiple
// of the stride and no dilation, all phases have the same shifts. Phases of different shifts are never joined with zero
// weights for the taps that one lacks: zero times an infinite input would not be zero.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/descriptor.hpp"

namespace convt::core {

struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

struct AxisClass {
  std::vector<std::int64_t> phases;
  std::vector<std::int64_t> shifts;  // ascending
};

struct AxisPhases {
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  std::vector<AxisClass> classes;  // none of them without taps
  bool complete = true;            // every phase has taps; where one has none, its outputs are zero

  // The tap of a phase at one of its shifts.
  std::int64_t tap(std::int64_t phase, std::int64_t shift) const { return (shift * stride + phase) / dilation; }
  // Positions q of the phase whose outputs lie in the interval.
  Interval positions(std::int64_t phase, const Interval& outputs) const;
  // Of any phase of the class.
  Interval positions(const AxisClass& axis_class, const Interval& outputs) const;
  // Of any of the stride's phases, with taps or without.
  Interval positions(const Interval& outputs) const;
  // Inputs that the outputs in the interval see; may reach outside the image.
  Interval inputs(const Interval& outputs) const;
  std::int64_t output(std::int64_t phase, std::int64_t position) const { return position * stride + phase - padding; }
};

AxisPhases phases_of(const Convolution& convolution, std::size_t axis, bool merged);

// Why engines that compute with phases leave a convolution to others: some axis reaches over 2^40 places or more,
// farther than any memory, before padding crops it. "" where none does; sums of a few places, strides and dilations
// then fit 63 bits.
std::string reaches_too_far(const Convolution& convolution);

// The phases of all axes, and classes as their products.
struct Phases {
  std::array<AxisPhases, 3> axis;

  std::int64_t count() const;  // of classes
  // Class number, row-major over the axes' classes, to one class per axis.
  std::array<const AxisClass*, 3> at(std::int64_t number) const;
};
// Bit a of `merged`: merge phases of axis a.
Phases phases_of(const Convolution& convolution, unsigned merged);

using ClassAxes = std::array<const AxisClass*, 3>;
std::int64_t phase_count(const ClassAxes& axes);
std::int64_t tap_count(const ClassAxes& axes);

}  // namespace convt::core
