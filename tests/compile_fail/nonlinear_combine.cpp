// SPDX-License-Identifier: Apache-2.0
// An op that compares x cannot be folded into a*x + b, whatever it says.
// EXPECT: an op that compares x is not linear in x: say `linear = false`
#include "plan/line.hpp"

struct Threshold : convt::core::Combine {
  static constexpr bool linear = true;
  template <class V>
  V apply(V x, V other) const {
    return select(x > other, x, other);
  }
};

convt::core::Line fold(const Threshold& op) { return apply_line(op, {}, nullptr); }
