// SPDX-License-Identifier: Apache-2.0
// The families of ops. An op is a struct derived from one of these; its data members are its parameters, and it adds
//   - fields(): a tuple of field_of<Op>("name", &Op::member) in the order of positional arguments;
//   - about, torch, examples: one line each of help, the same in PyTorch, and uses of it (used by tests too);
//   - the math its family asks for, as templates over a value type V (see value.hpp);
//   - unrolled, true if engines may have its math in their code for many values at once: it is short, or in many
//   chains;
//   - complaint(), if some values of its parameters do not go together: the rule they break, or nothing.
// Engines and the reference know families only; no code switches on an op.
//
// Op headers define their struct in the namespace CONVT_OPS and have no include guard: epilogue/op.hpp includes them
// all once, as `ops`. An engine that compiles code for several instruction sets includes them again for each, inside
// the region where the compiler may use it, as a namespace of its own (src/cpu/simd/ops-inl.hpp does): same
// parameters, so that one converts to the other by std::bit_cast, and the math compiled for that target.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "base/extents.hpp"
#include "epilogue/value.hpp"

namespace convt::core {

// A named parameter of an op.
template <class Op, class T>
struct Field {
  std::string_view name;
  T Op::*member;
  bool required;
};
inline constexpr bool required = true;
template <class Op, class Base, class T>
requires std::derived_from<Op, Base>
constexpr Field<Op, T> field_of(std::string_view name, T Base::*member, bool is_required = false) {
  return {name, member, is_required};
}

// What a chain calls a value that it keeps: letters, digits and '_'; "" for none.
struct Name {
  static constexpr std::size_t most = 15;
  char text[most + 1] = {};

  constexpr std::string_view view() const { return text; }
  bool operator==(const Name&) const = default;
};

// The second term of an add, sub, mul or div.
struct Term {
  enum Kind { scalar, channel, tensor, conv, kept };
  Kind kind = scalar;
  double number = 0;  // of a scalar
  Name name{};        // of a kept value
};

// Some of the axes C, D, H, W.
struct AxisSet {
  enum Bit : unsigned { c = 1, d = 2, h = 4, w = 8 };
  unsigned bits = c;

  constexpr bool channels() const { return (bits & c) != 0; }
  constexpr bool space(std::size_t axis) const { return (bits >> (axis + 1) & 1) != 0; }  // 0, 1, 2: D, H, W
  constexpr bool any_space() const { return (bits & ~unsigned{c}) != 0; }
  bool operator==(const AxisSet&) const = default;
};

// What an operand's elements are: the problem's dtype, or f32.
enum class OperandType { same, f32 };

// y = f(x) at each element.
//   V apply(V x) const
struct Pointwise {};

// y = f(x, other) at each element; `term` says what the other is.
//   V apply(V x, V other) const
//   static constexpr bool linear    for any other, f(x) = a*x + b: written with + - * / alone, with x on the left of *
//   and /
// Plans fold linear ops whose other is a number or one value per channel into one multiply-add.
struct Combine {
  Term term;
  OperandType dtype = OperandType::same;

  constexpr std::string_view complaint() const {
    const bool operand = term.kind == Term::channel || term.kind == Term::tensor;
    return dtype == OperandType::same || operand ? "" : "takes a dtype for channel and tensor only";
  }
};

template <class Op>
concept SaysWhetherLinear = requires {
  { Op::linear } -> std::convertible_to<bool>;
};
template <class Op>
concept LinearCombine = std::derived_from<Op, Combine> && SaysWhetherLinear<Op> && Op::linear;

template <class Op>
concept Unrolled = requires {
  requires Op::unrolled;
};

// Statistics over a region, in one pass or two, then a map of every element (Normalise) or one result (Reduce).
//   V start() const; V join(V a, V b) const          fold of the region's elements, in any grouping
//   V centre(V folded, V count) const                first statistic
//   V deviation(V x, V centre) const                 second pass: summed over the region (two_pass only)
//   V scale(V total, V count) const                  second statistic (two_pass only)
// Norms need two passes because E[x^2] - E[x]^2 loses digits; softmax because exp(x) overflows.

// Over some axes, to one element along each of them; engines see those over channels alone (plan/program.hpp).
//   V result(V centre, V scale) const
struct Reduce {
  AxisSet axes;
};

// Over which elements a Normalise op takes its statistics; `given` takes them from operands.
struct Region {
  enum Kind { channels, trailing, groups, instance, axes, given };
  Kind kind = channels;
  std::int64_t parameter = 0;  // trailing: how many axes; groups: how many groups; axes: the bits of an AxisSet
};
constexpr Region region_of(AxisSet axes) {
  return axes == AxisSet{} ? Region{} : Region{Region::axes, static_cast<std::int64_t>(axes.bits)};
}

//   Region region() const
//   V map(V x, V centre, V scale) const
// then, if affine, times a weight plus a bias: per channel, or over the trailing axes.
struct Normalise {
  bool affine = false;
  OperandType dtype = OperandType::same;
};

// Names the running value, for terms of later ops.
struct Keeps {
  Name name;
};

// Over windows of space.
//   V start() const; V join(V a, V b) const; V result(V folded, V count) const
// `count` is what the op's divides_by_whole_window says: the window's elements inside the image, or with its padding.
struct Pool {
  Extents size;     // rank 0: the whole image
  Extents stride;   // rank 0: size
  Extents padding;  // rank 0: none
  bool ceil = false;
};

}  // namespace convt::core
