// SPDX-License-Identifier: Apache-2.0
// Steps of a register program that mix channels: norms, softmax, reductions. Four neighbouring threads hold all
// channels of a row, so statistics are shuffles. `aside` has two floats for every row: the running value and then the
// first statistic; the second statistic.
#pragma once

#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/epilogue/real.cuh"

namespace convt::core::cuda::sm90 {

template <class Op, std::size_t i>
inline constexpr auto member_of = std::get<i>(Op::fields()).member;

template <class Op, std::size_t i>
__device__ void set_number(Op& op, const RegisterProgram::Step& step) {
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(op.*member_of<Op, i>)>, double>)
    op.*member_of<Op, i> = static_cast<double>(step.numbers[i]);
}
// The op of a step. Its numbers come as floats: converting a float to double and back takes no instruction.
template <class Op>
__device__ Op op_of(const RegisterProgram::Step& step) {
  Op op = *reinterpret_cast<const Op*>(step.params.bytes);
  if constexpr (std::is_same_v<Op, ops_in_registers::Norm>) {
    op.eps = static_cast<double>(step.numbers[0]);
  } else {
    const auto set = [&]<std::size_t... i>(std::index_sequence<i...>) { (set_number<Op, i>(op, step), ...); };
    set(std::make_index_sequence<std::tuple_size_v<decltype(Op::fields())>>());
  }
  return op;
}

// Calls f(op) for the number of a mixing step; all norms are one op.
template <class F>
__device__ void visit_mixing(int number, const RegisterProgram::Step& step, F&& f) {
  using ops_in_registers::Norm;
  switch (number) {
    case RegisterProgram::norm:
      f(op_of<Norm>(step));
      break;
#define CONVT_OP(name, Type)                                               \
  case static_cast<int>(OpNumber::name):                                   \
    if constexpr (std::derived_from<ops_in_registers::Type, Reduce> ||     \
                  (std::derived_from<ops_in_registers::Type, Normalise> && \
                   !std::derived_from<ops_in_registers::Type, Norm>))      \
      f(op_of<ops_in_registers::Type>(step));                              \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

template <class E, class Values, int count>
__device__ void apply_mixing(const Values& values, int code, const RegisterProgram::Step& step, float (&x)[count],
                             float (&aside)[count]) {
  using V = Real<E>;
  constexpr int each = RegisterProgram::ops_each;
  const int part = code / each * each;
  visit_mixing(code % each, step, [&]<class Op>(const Op& op) {
    if (part == RegisterProgram::folds) {
#pragma unroll
      for (int k = 0; k < count; ++k)
        if (values.is_channel(k % 2)) aside[k / 2 * 2] = op.join(V::of(aside[k / 2 * 2]), V::of(x[k])).x;
    } else if (part == RegisterProgram::maps) {
#pragma unroll
      for (int k = 0; k < count; ++k) {
        const V centre = V::of(aside[k / 2 * 2]), scale = V::of(aside[k / 2 * 2 + 1]);
        if constexpr (std::derived_from<Op, Reduce>)
          x[k] = op.result(centre, scale).x;
        else
          x[k] = op.map(V::of(x[k]), centre, scale).x;
      }
    } else if constexpr (Op::two_pass) {
#pragma unroll
      for (int k = 0; k < count; ++k)
        if (values.is_channel(k % 2)) aside[k / 2 * 2 + 1] += op.deviation(V::of(x[k]), V::of(aside[k / 2 * 2])).x;
    }
  });
}

// Called before the pass that takes a statistic, and after it.
template <class E, int count>
__device__ void begin_statistic(const RegisterProgram::Step& step, float (&aside)[count]) {
  const bool folds = step.code < RegisterProgram::deviates;
  visit_mixing(step.code % RegisterProgram::ops_each, step, [&](const auto& op) {
#pragma unroll
    for (int r = 0; r < count / 2; ++r) {
      if (folds) aside[2 * r] = op.template start<Real<E>>().x;
      aside[2 * r + 1] = 0;
    }
  });
}
template <class E, int count>
__device__ void end_statistic(const RegisterProgram::Step& step, int channels, float (&aside)[count]) {
  using V = Real<E>;
  const bool folds = step.code < RegisterProgram::deviates;
  const V all = V::of(static_cast<float>(channels));
  visit_mixing(step.code % RegisterProgram::ops_each, step, [&]<class Op>(const Op& op) {
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
      for (int r = 0; r < count / 2; ++r) {
        const float own = folds ? aside[2 * r] : aside[2 * r + 1];
        const float other = __shfl_xor_sync(~0U, own, lanes);
        if (folds)
          aside[2 * r] = op.join(V::of(own), V::of(other)).x;
        else
          aside[2 * r + 1] = own + other;
      }
#pragma unroll
    for (int r = 0; r < count / 2; ++r) {
      if (folds) aside[2 * r] = op.centre(V::of(aside[2 * r]), all).x;
      if constexpr (Op::two_pass) {
        if (!folds) aside[2 * r + 1] = op.scale(V::of(aside[2 * r + 1]), all).x;
      }
    }
  });
}

}  // namespace convt::core::cuda::sm90
