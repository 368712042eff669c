// SPDX-License-Identifier: Apache-2.0
// A value of ops' math (epilogue/value.hpp) that stands for a*x + b, for all x at once: an op that is linear in x, run
// on it, says what the op does to a and b. Host and device alike.
#pragma once

#include <cassert>
#include <concepts>

#include "epilogue/families.hpp"

namespace convt::core {

struct Line {
  double a = 1, b = 0;

  CONVT_FN constexpr Line() {}  // x itself
  CONVT_FN constexpr Line(double slope, double offset) : a(slope), b(offset) {}
  CONVT_FN constexpr explicit Line(double number) : a(0), b(number) {}

  CONVT_FN friend constexpr Line operator+(Line x, Line y) { return {x.a + y.a, x.b + y.b}; }
  CONVT_FN friend constexpr Line operator-(Line x, Line y) { return {x.a - y.a, x.b - y.b}; }
  // By a number. No offset stays none, so that times infinity and by 0 do to x what the op did.
  CONVT_FN friend constexpr Line operator*(Line x, Line y) {
    assert(y.a == 0);
    return {x.a * y.b, x.b == 0 ? x.b : x.b * y.b};
  }
  CONVT_FN friend constexpr Line operator/(Line x, Line y) {
    assert(y.a == 0);
    return {x.a / y.b, x.b == 0 ? x.b : x.b / y.b};
  }

  // A line has no order: an op that asks is not linear.
  template <std::same_as<Line> L>
  CONVT_FN friend bool operator<(L, L) {
    return ask<L>();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend bool operator>(L, L) {
    return ask<L>();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend bool operator<=(L, L) {
    return ask<L>();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend bool operator>=(L, L) {
    return ask<L>();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend bool operator==(L, L) {
    return ask<L>();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend L select(bool, L, L) {
    return ask<L>(), L();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend L maximum(L, L) {
    return ask<L>(), L();
  }
  template <std::same_as<Line> L>
  CONVT_FN friend L minimum(L, L) {
    return ask<L>(), L();
  }

 private:
  template <class L>
  CONVT_FN static bool ask() {
    static_assert(!std::same_as<L, Line>, "an op that compares x is not linear in x: say `linear = false`");
    return false;
  }
};

// What an op with per-channel operands makes of a line, from its operands at one channel.
template <std::derived_from<Combine> Op>
CONVT_FN Line apply_line(const Op& op, Line line, const double* operands) {
  static_assert(LinearCombine<Op>, "only an op that says `linear = true` is folded into a*x + b");
  return op.apply(line, Line(op.term.kind == Term::scalar ? op.term.number : operands[0]));
}
// Of a norm: all it does, where its statistics are `given`; else its weight and bias alone.
template <std::derived_from<Normalise> Op>
CONVT_FN Line apply_line(const Op& op, bool given, Line line, const double* operands) {
  if (given) line = op.map(line, Line(operands[0]), Line(op.scale(operands[1], 1.0)));
  const int affine = given ? 2 : 0;
  return op.affine ? line * Line(operands[affine]) + Line(operands[affine + 1]) : line;
}

}  // namespace convt::core
