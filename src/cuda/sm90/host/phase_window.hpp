// SPDX-License-Identifier: Apache-2.0
// Long strides. A kernel counts up to 8 phases along an axis and 64 in all. A convolution with more phases takes
// several launches, and each has a window of the phases. For a kernel, the outputs of a window are neighbours, and the
// number of phases in the window is the stride. Only offsets in the output follow the convolution's own stride.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

// The phases of a launch along each axis: `count` from `first` on, where the box's first output has phase 0.
struct PhaseWindow {
  std::array<int, 3> first{0, 0, 0}, count{1, 1, 1}, stride{1, 1, 1};  // stride: the convolution's own

  bool is_whole() const { return count == stride; }
};

// The windows of a convolution. most: phases of each window but the last along an axis.
struct PhaseWindows {
  std::array<int, 3> stride{1, 1, 1}, most{1, 1, 1};

  // All windows along an axis have the same even size, so that pairs of phases stay together; the last one has the
  // rest.
  explicit PhaseWindows(const std::array<int, 3>& strides = {1, 1, 1}) : stride(strides), most(strides) {
    for (std::size_t a = 0; a < 3; ++a)
      if (stride[a] > most_axis_phases) most[a] = even_part(stride[a], (stride[a] - 1) / most_axis_phases + 1);
    for (std::size_t a = 0; most[0] * most[1] * most[2] > most_phases; a = (a + 1) % 3)
      if (most[a] > 4) most[a] = even_part(most[a], 2);
  }

  int along(std::size_t axis) const { return (stride[axis] - 1) / most[axis] + 1; }
  int count() const { return along(0) * along(1) * along(2); }
  PhaseWindow at(int number) const {
    PhaseWindow window;
    window.stride = stride;
    for (std::size_t a = 3; a-- > 0; number /= along(a)) {
      window.first[a] = number % along(a) * most[a];
      window.count[a] = stride[a] - window.first[a] < most[a] ? stride[a] - window.first[a] : most[a];
    }
    return window;
  }

 private:
  static int even_part(int all, int parts) { return ((all - 1) / parts / 2 + 1) * 2; }
};

// The number of outputs in the window, of `size` outputs along an axis.
inline std::int64_t outputs_in(const PhaseWindow& window, std::size_t axis, std::int64_t size) {
  const std::int64_t left = size - window.first[axis];
  if (left <= 0) return 0;
  const std::int64_t rest = left % window.stride[axis];
  return left / window.stride[axis] * window.count[axis] + (rest < window.count[axis] ? rest : window.count[axis]);
}

}  // namespace convt::core::cuda::sm90
