// SPDX-License-Identifier: Apache-2.0
// Memory in pieces of equal size, equally far apart: what a range of a tensor's channels has of it.
#pragma once

#include <cstdint>

namespace convt::core {

// Bytes [begin + i*period, begin + i*period + size) for i < count; size <= period, and all of it below 2^64.
struct Pieces {
  std::uint64_t begin = 0, size = 0, count = 1, period = 0;
};

// Whether some byte is in both. Exact, in a time that grows with the logarithm of the sizes.
bool overlap(const Pieces& a, const Pieces& b);

}  // namespace convt::core
