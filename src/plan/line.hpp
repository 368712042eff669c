// SPDX-License-Identifier: Apache-2.0
// A value of ops' math (epilogue/value.hpp) that stands for a*x + b, for all x at once: an op that is linear in x, run
// on it, says what the op does to a and b.
#pragma once

#include <cassert>

namespace convt::core {

struct Line {
  double a = 1, b = 0;

  constexpr Line() = default;  // x itself
  constexpr Line(double slope, double offset) : a(slope), b(offset) {}
  constexpr explicit Line(double number) : a(0), b(number) {}

  friend constexpr Line operator+(Line x, Line y) { return {x.a + y.a, x.b + y.b}; }
  friend constexpr Line operator-(Line x, Line y) { return {x.a - y.a, x.b - y.b}; }
  // By a number. No offset stays none, so that times infinity and by 0 do to x what the op did.
  friend constexpr Line operator*(Line x, Line y) {
    assert(y.a == 0);
    return {x.a * y.b, x.b == 0 ? x.b : x.b * y.b};
  }
  friend constexpr Line operator/(Line x, Line y) {
    assert(y.a == 0);
    return {x.a / y.b, x.b == 0 ? x.b : x.b / y.b};
  }
};

}  // namespace convt::core
