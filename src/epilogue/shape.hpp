// SPDX-License-Identifier: Apache-2.0
// The shape of a value on its way through the chain.
#pragma once

#include <cstdint>
#include <vector>

#include "base/extents.hpp"

namespace convt::core {

struct Shape {
  int dims = 3;  // spatial axes the user sees: the last `dims` of `space`
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  Axes space{1, 1, 1};

  std::int64_t count() const { return batch * channels * volume(space); }
  bool operator==(const Shape&) const = default;

  // N, C, [D, [H,]] W.
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> all{batch, channels};
    all.insert(all.end(), space.end() - dims, space.end());
    return all;
  }
};

}  // namespace convt::core
