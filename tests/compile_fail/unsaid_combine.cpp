// SPDX-License-Identifier: Apache-2.0
// An op that does not say whether it is linear is not folded.
// EXPECT: only an op that says `linear = true` is folded
#include "plan/line.hpp"

struct Plus : convt::core::Combine {
  template <class V>
  V apply(V x, V other) const {
    return x + other;
  }
};

convt::core::Line fold(const Plus& op) { return apply_line(op, {}, nullptr); }
