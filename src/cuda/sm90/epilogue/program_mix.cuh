// SPDX-License-Identifier: Apache-2.0
// Steps of a register program that mix channels: norms, softmax, reductions. Four neighbouring threads hold all
// channels of a row, so statistics are shuffles.
#pragma once

#include "cuda/chain/real.cuh"
#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/loader/element.cuh"

namespace convt::core::cuda::sm90 {

// Two statistics for every row of a thread: part 0's first and second row, part 1's, and so on.
template <int parts>
struct RowStatistics {
  float centre[2 * parts], scale[2 * parts];
};

template <class Op, std::size_t i>
inline constexpr auto member_of = std::get<i>(Op::fields()).member;

template <class Op, std::size_t i>
__device__ void set_number(Op& op, const RegisterProgram::Step& step) {
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(op.*member_of<Op, i>)>, double>)
    op.*member_of<Op, i> = static_cast<double>(step.numbers[i]);
}
// The op of a step, whose numbers are floats: converting a float to double and back takes no instruction.
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

// Adds a thread's deviations in `groups` groups of columns from `first` on.
template <class E, int groups, class Op, class Values, int parts, int count>
__device__ void add_deviations(const Op& op, const Values& values, int first, const float (&x)[parts][count],
                               RowStatistics<parts>& rows) {
  using V = Real<is_precise<E>>;
#pragma unroll
  for (int i = 0; i < groups; ++i)
#pragma unroll
    for (int which = 0; which < 2; ++which)
      if (values.is_channel(first + i, which)) {
#pragma unroll
        for (int r = 0; r < 2 * parts; ++r)
          rows.scale[r] += op.deviation(V::of(x[r / 2][4 * i + r % 2 * 2 + which]), V::of(rows.centre[r])).x;
      }
}
// The second statistic, from the deviations of all four threads.
template <class E, class Op, int parts>
__device__ void find_scales(const Op& op, int channels, RowStatistics<parts>& rows) {
  using V = Real<is_precise<E>>;
#pragma unroll  // all rows in each step: shuffles of other rows hide a shuffle's latency
  for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
    for (float& own : rows.scale) own += __shfl_xor_sync(~0U, own, lanes);
#pragma unroll
  for (float& own : rows.scale) own = op.scale(V::of(own), V::of(static_cast<float>(channels))).x;
}
// The first statistic, over all columns.
template <class E, class Op, class Values, int parts, int count>
__device__ void find_centres(const Op& op, const Values& values, const float (&x)[parts][count],
                             RowStatistics<parts>& rows) {
  using V = Real<is_precise<E>>;
#pragma unroll
  for (float& own : rows.centre) own = op.template start<V>().x;
#pragma unroll
  for (int i = 0; i < count / 4; ++i)
#pragma unroll
    for (int which = 0; which < 2; ++which)
      if (values.is_channel(i, which)) {
#pragma unroll
        for (int r = 0; r < 2 * parts; ++r)
          rows.centre[r] = op.join(V::of(rows.centre[r]), V::of(x[r / 2][4 * i + r % 2 * 2 + which])).x;
      }
#pragma unroll
  for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
    for (float& own : rows.centre) own = op.join(V::of(own), V::of(__shfl_xor_sync(~0U, own, lanes))).x;
#pragma unroll
  for (int r = 0; r < 2 * parts; ++r) {
    rows.centre[r] = op.centre(V::of(rows.centre[r]), V::of(static_cast<float>(values.p.out_channels))).x;
    rows.scale[r] = 0;
  }
}
template <class E, int groups, class Op, int parts, int count>
__device__ void map_values(const Op& op, const RowStatistics<parts>& rows, float (&x)[parts][count]) {
  using V = Real<is_precise<E>>;
#pragma unroll
  for (int k = 0; k < parts * groups * 4; ++k) {
    float& v = x[k % parts][k / parts];
    const int r = k % parts * 2 + k / parts / 2 % 2;
    const V centre = V::of(rows.centre[r]), scale = V::of(rows.scale[r]);
    if constexpr (std::derived_from<Op, Reduce>)
      v = op.result(centre, scale).x;
    else
      v = op.map(V::of(v), centre, scale).x;
  }
}

// A mixing step on all accumulators. Of ops that are not unrolled, it finds only the statistics that need shuffles;
// mix_some() does the rest. kept: may be in memory.
template <class E, class Values, int parts, int count>
__device__ void mix_wide(const Values& values, int code, const RegisterProgram::Step& step, float (&x)[parts][count],
                         RowStatistics<parts>& kept) {
  constexpr int each = RegisterProgram::ops_each;
  const int part = code / each * each, channels = values.p.out_channels;
  RowStatistics<parts> rows = kept;
  visit_mixing(code % each, step, [&]<class Op>(const Op& op) {
    if (part == RegisterProgram::folds) return find_centres<E>(op, values, x, rows);
    if constexpr (Unrolled<Op>) {
      if (part == RegisterProgram::maps) return map_values<E, count / 4>(op, rows, x);
      add_deviations<E, count / 4>(op, values, 0, x, rows);
    }
    if constexpr (Op::two_pass) find_scales<E>(op, channels, rows);
  });
  kept = rows;
}
// What mix_wide() leaves of a mixing step, on the groups of columns at the front of x.
template <class E, int groups, class Values, int parts, int count>
__device__ void mix_some(const Values& values, int first, int code, const RegisterProgram::Step& step,
                         float (&x)[parts][count], RowStatistics<parts>& kept) {
  constexpr int each = RegisterProgram::ops_each;
  RowStatistics<parts> rows = kept;
  visit_mixing(code % each, step, [&]<class Op>(const Op& op) {
    if constexpr (!Unrolled<Op>) {
      if (code >= RegisterProgram::maps)
        map_values<E, groups>(op, rows, x);
      else if constexpr (Op::two_pass)
        add_deviations<E, groups>(op, values, first, x, rows);
    }
  });
  kept = rows;
}

}  // namespace convt::core::cuda::sm90
