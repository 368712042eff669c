// SPDX-License-Identifier: Apache-2.0
// Taps of one axis in closed form, for code that cannot hold lists of them: see phases.hpp for what phases and shifts
// are. Host and device alike.
#pragma once

#include <cstdint>

#include "epilogue/value.hpp"

namespace convt::core {

// The taps of one phase: tap first + i*step at shift first_shift + i*shift_step, i < count.
struct PhaseTaps {
  std::int64_t count = 0;
  std::int64_t first = 0, step = 1;
  std::int64_t first_shift = 0, shift_step = 1;
};

// An axis. With g = gcd(stride, dilation), phases that g does not divide have no taps, and the others every
// (stride/g)-th tap. Strides and dilations are below 2^31.
struct TapAxis {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t common = 1;      // g
  std::int64_t step = 1;        // stride/g
  std::int64_t shift_step = 1;  // dilation/g
  std::int64_t inverse = 0;     // of dilation/g, modulo stride/g

  CONVT_FN PhaseTaps taps(std::int64_t phase) const {
    const std::int64_t quotient = phase / common;
    if (quotient * common != phase) return {};
    const std::int64_t first = quotient * inverse % step;
    const std::int64_t count = kernel > first ? (kernel - 1 - first) / step + 1 : 0;
    return {count, first, step, (first * dilation - phase) / stride, shift_step};
  }
};
TapAxis tap_axis(std::int64_t kernel, std::int64_t stride, std::int64_t dilation);

// Places [first, first + count) along one axis.
struct TapRun {
  std::int64_t first = 0, count = 0;
};
// Behind windows of a convolution's result, `stride` apart: an output o = i*s + offset, where `stride` divides s, is in
// window i*(s/stride) + m for these places m = (offset - j)/stride, 0 <= j < window where that divides.
CONVT_FN inline TapRun windowed_places(std::int64_t offset, std::int64_t window, std::int64_t stride) {
  std::int64_t rest = offset % stride;  // the smallest j
  if (rest < 0) rest += stride;
  if (rest >= window) return {};
  const std::int64_t count = (window - 1 - rest) / stride + 1;
  return {(offset - rest) / stride - (count - 1), count};
}

}  // namespace convt::core
