// SPDX-License-Identifier: Apache-2.0
// Where a tensor's elements are, that can be a range of a wider tensor's channels.
#pragma once

#include <cstddef>

#include "convt/convt.hpp"

namespace convt::cli {

// Calls f(first, place, count) for each run of elements that follow each other in memory: the elements from `first` on,
// in memory order, are at `place` and behind it.
template <class F>
void each_run(const TensorInfo& info, F f) {
  const std::size_t all = info.elements();
  if (all == 0) return;
  if (!info.is_range()) return f(std::size_t{0}, std::size_t{0}, all);
  const bool images = info.layout == Layout::channels_first;
  const std::size_t count = images ? all / info.shape[0] : info.shape[1];
  const std::size_t apart = images ? info.strides[0] : info.strides.back();
  for (std::size_t i = 0; i * count < all; ++i) f(i * count, i * apart, count);
}

// The place of one element.
inline std::size_t place_of(const TensorInfo& info, std::size_t element) {
  std::size_t found = element;
  each_run(info, [&](std::size_t first, std::size_t place, std::size_t count) {
    if (element >= first && element - first < count) found = place + (element - first);
  });
  return found;
}

}  // namespace convt::cli
