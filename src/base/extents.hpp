// SPDX-License-Identifier: Apache-2.0
// Sizes along spatial axes. Inside the library every problem has three axes, D, H, W; a problem of fewer dimensions has
// leading axes of size 1, so that engines write one set of loops.
#pragma once

#include <array>
#include <cstdint>

#include "base/checked.hpp"

namespace convt::core {

using Axes = std::array<std::int64_t, 3>;

inline constexpr std::array<char, 3> axis_letters{'d', 'h', 'w'};

// Sizes as a person writes them: one for all axes, or one per axis. rank 0: not given.
struct Extents {
  Axes sizes{};
  int rank = 0;
};

// For a problem of `dims` dimensions: right-aligned, leading axes filled. Legal ranks are 0 (all fill), 1 and dims.
constexpr Axes resolve(const Extents& extents, int dims, std::int64_t fill) {
  Axes axes{fill, fill, fill};
  if (extents.rank == 0) return axes;
  for (int axis = 3 - dims; axis < 3; ++axis)
    axes[static_cast<std::size_t>(axis)] =
        extents.sizes[extents.rank == 1 ? 0 : static_cast<std::size_t>(axis - (3 - dims))];
  return axes;
}

// Capped: boxes that no tensor has are drawn up too, to be rejected.
constexpr std::int64_t volume(const Axes& axes) { return capped_product({axes[0], axes[1], axes[2]}); }

}  // namespace convt::core
