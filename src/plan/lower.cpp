// SPDX-License-Identifier: Apache-2.0
// From the stages that were asked for to a program's steps, one by one. What engines need not know becomes steps that
// they have: reductions over space are pools, and softmax over space is written out with kept values.
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "plan/algebra.hpp"

namespace convt::core {
namespace {

class Lowering {
 public:
  Lowering(std::vector<Step>& steps, const Stage& stage, convt_dtype dtype)
      : steps_(steps), stage_(stage), shape_(stage.in), doubles_(dtype == CONVT_F64) {}

  void run() {
    std::visit([&](const auto& op) { lower(op); }, stage_.op);
  }

 private:
  // ---- What the stages become.

  template <class T>
  void lower(const T&) {
    as_it_is();
  }
  template <class T>
  requires LinearCombine<T>
  void lower(const T& op) {
    if (op.term.kind == Term::scalar || op.term.kind == Term::channel)
      affine(Affine::Part::op, stage_);
    else
      as_it_is();
  }
  template <class T>
  requires std::derived_from<T, Normalise>
  void lower(const T& op) {
    const Region region = op.region();
    if (region.kind == Region::given) return affine(Affine::Part::op, stage_);
    if (region.kind == Region::axes) return spread(op, {static_cast<unsigned>(region.parameter)});
    if (!op.affine || region.kind == Region::trailing) return as_it_is();
    T bare = op;
    bare.affine = false;
    push(bare, shape_);
    affine(Affine::Part::weight_and_bias, stage_);
  }
  template <class T>
  requires std::derived_from<T, Reduce>
  void lower(const T& op) {
    if (!op.axes.any_space()) return as_it_is();
    if constexpr (T::two_pass)
      log_of_sum(op.axes);
    else
      fold(op, op.axes);
  }

  void spread(const ops::Softmax&, AxisSet axes) {
    const Name x = keep();
    const Shape whole = shape_;
    fold(ops::Max(), axes);
    scale(-1);
    with<ops::Add>(x, whole);
    push(ops::Exp(), shape_);
    const Name powers = keep();
    fold(ops::Sum(), axes);
    ops::Pow inverse;
    inverse.exponent = -1;
    push(inverse, shape_);
    with<ops::Mul>(powers, whole);
  }
  void spread(const ops::LogSoftmax&, AxisSet axes) {
    const Name x = keep();
    const Shape whole = shape_;
    fold(ops::Max(), axes);
    scale(-1);
    with<ops::Add>(x, whole);
    const Name shifted = keep();
    push(ops::Exp(), shape_);
    fold(ops::Sum(), axes);
    push(ops::Log(), shape_);
    scale(-1);
    with<ops::Add>(shifted, whole);
  }
  // Norms have regions of their own.
  template <class T>
  void spread(const T&, AxisSet) {
    as_it_is();
  }
  void log_of_sum(AxisSet axes) {
    const Name x = keep();
    const Shape whole = shape_;
    fold(ops::Max(), axes);
    ops::Clamp finite;  // Inf - Inf would be NaN
    finite.max = doubles_ ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
    finite.min = -finite.max;
    push(finite, shape_);
    const Name largest = keep();
    scale(-1);
    with<ops::Add>(x, whole);
    push(ops::Exp(), shape_);
    fold(ops::Sum(), axes);
    push(ops::Log(), shape_);
    with<ops::Add>(largest, shape_);
  }

  // ---- Single steps.

  void as_it_is() {
    steps_.push_back({stage_.op, stage_.in, stage_.out, stage_.first_operand, stage_.operand_count});
    shape_ = stage_.out;
  }
  void push(const Op& op, const Shape& out) {
    steps_.push_back({op, shape_, out, 0, 0});
    shape_ = out;
  }
  void affine(Affine::Part::Role role, const Stage& stage) {
    Affine affine;
    affine.parts.push_back({role, stage});
    steps_.push_back({std::move(affine), stage.out, stage.out, 0, 0});
    shape_ = stage.out;
  }
  void scale(double factor) {
    ops::Mul mul;
    mul.term = {Term::scalar, factor, {}};
    affine(Affine::Part::op, {Op(mul), shape_, shape_, 0, 0});
  }
  // Under a name that no text can have.
  Name keep() {
    ops::Keep keeps;
    std::to_string(steps_.size()).copy(keeps.name.text, Name::most);
    push(keeps, shape_);
    return keeps.name;
  }
  template <class T>
  void with(const Name& name, const Shape& out) {
    T op;
    op.term = {Term::kept, 0, name};
    push(op, out);
  }
  // A reduction: over channels first, which leaves less to the pool.
  template <class T>
  void fold(T op, AxisSet axes) {
    op.axes = {};
    if (axes.channels()) {
      Shape out = shape_;
      out.channels = 1;
      push(op, out);
    }
    if (!axes.any_space()) return;
    Shape out = shape_;
    Extents window{{}, shape_.dims};
    for (std::size_t a = 0; a < 3; ++a) {
      const bool folded = axes.space(a);
      if (folded) out.space[a] = 1;
      if (a + static_cast<std::size_t>(shape_.dims) >= 3)
        window.sizes[a + static_cast<std::size_t>(shape_.dims) - 3] = folded ? shape_.space[a] : 1;
    }
    const auto pool = [&]<class P>(P one) {
      one.size = window;
      push(one, out);
    };
    if constexpr (std::derived_from<T, ops::MaxFold>)
      pool(ops::MaxPool());
    else if constexpr (std::derived_from<T, ops::MinFold>)
      pool(ops::MinPool());
    else if (*linear_reduction(Op(op), 2) == 1)
      pool(ops::SumPool());
    else
      pool(ops::AvgPool());
  }

  std::vector<Step>& steps_;
  const Stage& stage_;
  Shape shape_;
  bool doubles_;
};

}  // namespace

void add_steps(std::vector<Step>& steps, const Stage& stage, convt_dtype dtype) { Lowering(steps, stage, dtype).run(); }

}  // namespace convt::core
