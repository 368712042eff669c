// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile.hpp"

namespace convt::core::cpu {

Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, apart = b.centre - a.centre;
  return {count, a.centre + apart * (b.count / count), a.total + b.total + apart * apart * (a.count * b.count / count)};
}

}  // namespace convt::core::cpu
