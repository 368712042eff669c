// SPDX-License-Identifier: Apache-2.0
// Predicted times, and what takes them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace convt::core::cuda {

// The predicted time of some work, and of its parts alone, in seconds. Parts overlap: the work takes at least its
// longest part, and at most the sum of all.
struct Prediction {
  enum Part {
    products,  // multiply-adds of the convolution, by tensor cores or not
    chain,     // arithmetic of the chain
    loads,     // from caches to shared memory: inputs for each tile, and weights
    stores,    // from registers to the caches: results of the convolution's launch
    memory,    // bytes between stages and of the call's tensors, each counted once
    launches,  // and the gaps between them
    parts
  };
  static constexpr std::array<std::string_view, parts> names{"products", "chain",  "loads",
                                                             "stores",   "memory", "launches"};

  double seconds = 0;
  std::array<double, parts> of{};

  Prediction& operator+=(const Prediction& other) {
    seconds += other.seconds;
    for (std::size_t i = 0; i < parts; ++i) of[i] += other.of[i];
    return *this;
  }
  Prediction& operator*=(double factor) {
    seconds *= factor;
    for (double& one : of) one *= factor;
    return *this;
  }
  // Adds work that overlaps nothing.
  void add(Part part, double more) {
    seconds += more;
    of[part] += more;
  }
  // The part that takes the longest.
  Part binds() const { return static_cast<Part>(std::max_element(of.begin(), of.end()) - of.begin()); }
};
inline Prediction operator*(double factor, Prediction prediction) { return prediction *= factor; }

}  // namespace convt::core::cuda
