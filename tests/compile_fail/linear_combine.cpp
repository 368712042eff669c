// SPDX-License-Identifier: Apache-2.0
// One that is linear and says so is.
#include "plan/line.hpp"

struct Minus : convt::core::Combine {
  static constexpr bool linear = true;
  template <class V>
  V apply(V x, V other) const {
    return x - other;
  }
};

convt::core::Line fold(const Minus& op) { return apply_line(op, {}, nullptr); }
