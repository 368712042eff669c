// SPDX-License-Identifier: Apache-2.0
#include "problem/pieces.hpp"

#include <algorithm>
#include <utility>

namespace convt::core {
namespace {

__extension__ using Wide = __int128;  // addresses are 64-bit, and so is what all pieces span

Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }

// The sum of floor((a*i + b) / m) over i < n, by Euclid's algorithm.
Wide floor_sum(Wide n, Wide m, Wide a, Wide b) {
  Wide sum = 0;
  while (n > 0) {
    const Wide whole_a = floor_div(a, m), whole_b = floor_div(b, m);
    sum += n * (n - 1) / 2 * whole_a + n * whole_b;
    const Wide last = (a - whole_a * m) * n + (b - whole_b * m);
    n = last / m;
    b = last % m;
    a = std::exchange(m, a - whole_a * m);
  }
  return sum;
}

}  // namespace

bool overlap(const Pieces& a, const Pieces& b) {
  const Wide apart = Wide(b.begin) - Wide(a.begin), size = a.size, period = a.period, other = b.size;
  const Wide b_span = Wide(b.count - 1) * b.period + other;
  // Of a, the pieces that begin before b ends and end behind its beginning.
  const Wide first = std::max<Wide>(floor_div(apart - size, period) + 1, 0);
  const Wide end = std::min<Wide>(floor_div(apart + b_span - 1, period) + 1, a.count);
  if (first >= end) return false;
  // Each meets as many pieces of b as begin less than its size behind it or less than their own before it; the b that
  // goes on forever has no others there.
  const Wide from = first * period - apart, count = end - first;
  return floor_sum(count, b.period, period, from + size - 1) != floor_sum(count, b.period, period, from - other);
}

}  // namespace convt::core
