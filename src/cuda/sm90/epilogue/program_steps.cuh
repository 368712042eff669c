// SPDX-License-Identifier: Apache-2.0
// Steps of a register program, on all accumulators of a thread or on some groups of 8 columns. The op of a step is
// chosen once for all of them, by a uniform branch.
//
// A part is a row tile of a phase. x[part] has its accumulators, four for each group of 8 columns; a step runs on the
// groups at the front. `values` describes them (epilogue/program_values.cuh).
#pragma once

#include "cuda/chain/ops.cuh"
#include "cuda/chain/real.cuh"
#include "cuda/sm90/epilogue/scale_bias.cuh"
#include "cuda/sm90/loader/element.cuh"

#include "cuda/sm90/epilogue/program_mix.cuh"

namespace convt::core::cuda::sm90 {

// Per-channel values of a step: a and b of a scale and bias; for another op its operand, or its number, and 0.
__device__ inline float2 channel_values(const RegisterProgram::Step& step, int channel) {
  const bool is_line = step.code == RegisterProgram::scale_bias;
  if (!is_line && step.data[0] == nullptr) return {step.numbers[0], 0};
  if (!is_line) return {load<float>(step.data[0], channel, step.dtype), 0};
  if (step.data[0] == nullptr) return {1, 0};
  return {at<float>(step.data[0], channel), at<float>(step.data[1], channel)};
}

// Fills shared memory with a band's per-channel values, [row][column], unless it has them: `filled` is the last band.
// `threads` threads call it.
template <int n, int threads, int barrier = 1>
__device__ void fill_channel_values(const ConvParams& p, int band, int& filled, unsigned char* memory) {
  const RegisterProgram& program = p.program;
  if (filled >= 0 && (band == filled || program.rows == 0)) return;
  filled = band;
  sync_some<barrier, threads>();
  int first = threadIdx.x;
  opaque(first);  // recomputed, to save registers
#pragma unroll 1
  for (int i = first; i < program.rows * n; i += threads) {
    const int row = i / n, channel = band * n + i % n;
    const RegisterProgram::Step& step = program.steps[program.row_steps[row]];
    float2 values{0, 0};
    if (channel < p.out_channels) values = channel_values(step, min(channel, step.channels - 1));
    if (p.undo != nullptr && row == 0 && channel < p.out_channels) values.x *= p.undo[channel];
    scale_bias_in<n>(memory).data[i] = values;
  }
  sync_some<barrier, threads>();
}

// Per-channel values of the two channels that a thread has in a group.
struct TwoChannels {
  float2 of[2];
};

// The per-channel values of a wide step: from shared memory, or the step's number.
template <class Values>
__device__ TwoChannels near_channels(const Values& values, const RegisterProgram::Step& step, int group) {
  if (step.row >= 0) return values.in_row(step.row, group);
  const float2 number{step.numbers[0], 0};
  return {{number, number}};
}
template <class Values>
__device__ TwoChannels both_channels(const Values& values, const RegisterProgram::Step& step, int group) {
  if (step.row >= 0) return values.in_row(step.row, group);
  TwoChannels both;
#pragma unroll
  for (int which = 0; which < 2; ++which)
    both.of[which] = channel_values(step, min(values.channel(group, which), step.channels - 1));
  return both;
}

// Calls f(group, value, index of the value among the group's four) for the groups at the front.
template <int groups, int parts, int count, class F>
__device__ void for_values(float (&x)[parts][count], F&& f) {
#pragma unroll
  for (int i = 0; i < groups; ++i)
#pragma unroll
    for (int k = 0; k < parts * 4; ++k) f(i, x[k / 4][4 * i + k % 4], k % 4);
}
// x = a*x + b. channels(i): a and b in group i.
template <int groups, class Values, int parts, int count, class Channels>
__device__ void apply_lines(float (&x)[parts][count], const Channels& channels) {
#pragma unroll
  for (int i = 0; i < groups; ++i) {
    const TwoChannels both = channels(i);
#pragma unroll
    for (int k = 0; k < parts * 4; ++k) {
      const float2& own = both.of[Values::channel_of(k % 4)];
      float& v = x[k / 4][4 * i + k % 4];
      v = fmaf(own.x, v, own.y);
    }
  }
}
template <int groups, int parts, int count>
__device__ void apply_line(const RegisterProgram::Step& step, float (&x)[parts][count]) {
  const float a = step.numbers[0], b = step.numbers[1];
  for_values<groups>(x, [&](int, float& v, int) { v = fmaf(a, v, b); });
}
// An op that takes one value, or a value and one per channel.
template <class E, class Op, int groups, class Values, int parts, int count, class Channels>
__device__ void apply_op(const RegisterProgram::Step& step, float (&x)[parts][count], const Channels& channels) {
  using V = Real<is_precise<E>>;
  if constexpr (std::derived_from<Op, Pointwise>) {
    const Op op = op_of<Op>(step);
    for_values<groups>(x, [&](int, float& v, int) { v = op.apply(V::of(v)).x; });
  } else if constexpr (std::derived_from<Op, Combine> && !LinearCombine<Op>) {
    const Op& op = *reinterpret_cast<const Op*>(step.params.bytes);
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const TwoChannels other = channels(i);
#pragma unroll
      for (int k = 0; k < parts * 4; ++k) {
        float& v = x[k / 4][4 * i + k % 4];
        v = op.apply(V::of(v), V::of(other.of[Values::channel_of(k % 4)].x)).x;
      }
    }
  }
}

// Calls f.operator()<T>(), where T is the type of a step's tensor: that of E's results, or float.
template <class E, class F>
__device__ void with_tensor_type(const RegisterProgram::Step& step, const F& f) {
  using T = ResultOf<E>;
  if constexpr (sizeof(T) != sizeof(float))
    if (step.dtype != CONVT_F32) return f.template operator()<T>();
  f.template operator()<float>();
}

// The number of groups that a narrow step runs on at a time; each part has `groups`. A kernel has code for all ops,
// which grows with this number, and 64 accumulators leave few registers.
CONVT_FN constexpr int groups_at_hand(int groups, int parts, bool has_room) {
  const int most_values = has_room ? 24 : 8;
  int most = 1;
  for (int c = 1; c <= groups; ++c)
    if (groups % c == 0 && c * parts * 4 <= most_values) most = c;
  return most;
}

// The number of groups whose elements of a whole tensor are loaded at a time. bytes: of an element.
CONVT_FN constexpr int groups_loaded(int groups, int parts, int bytes) {
  int most = 1;
  for (int c = 1; c <= groups; ++c)
    if (groups % c == 0 && c * parts * 4 * bytes <= 64) most = c;
  return most;
}

// Applies an op that takes a second value to the groups from `first` on. linear: only linear ops have code.
template <class E, int groups, int first, bool linear, int parts, int count>
__device__ void apply_both(int op, const RegisterProgram::Step& step, float (&x)[parts][count],
                           const float (&other)[parts][4 * groups]) {
  const auto apply = [&]<class Op>() {
    if constexpr (linear ? LinearCombine<Op> : std::derived_from<Op, Combine>) {
      const Op& math = *reinterpret_cast<const Op*>(step.params.bytes);
#pragma unroll
      for (int k = 0; k < parts * groups * 4; ++k) {
        float& v = x[k % parts][4 * first + k / parts];
        v = math.apply(Real<is_precise<E>>::of(v), Real<is_precise<E>>::of(other[k % parts][k / parts])).x;
      }
    }
  };
  switch (op) {
#define CONVT_OP(name, Type)                             \
  case static_cast<int>(OpNumber::name):                 \
    apply.template operator()<ops_in_registers::Type>(); \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}
// A wide step with a whole tensor. Its elements are loaded in batches.
template <class E, class T, int first, class Values, int parts, int count>
__device__ void add_tensor(const Values& values, const RegisterProgram::Step& step, float (&x)[parts][count]) {
  constexpr int groups = groups_loaded(count / 4, parts, sizeof(T));
  if constexpr (first < count / 4) {
    float other[parts][4 * groups];
    values.template load_others<T, groups>(step, first, other);
    apply_both<E, groups, first, true>(step.code % RegisterProgram::ops_each, step, x, other);
    add_tensor<E, T, first + groups>(values, step, x);
  }
}

// A wide step.
template <class E, class Values, int parts, int count>
__device__ void apply_wide(const Values& values, int code, const RegisterProgram::Step& step, float (&x)[parts][count],
                           RowStatistics<parts>& rows) {
  constexpr int groups = count / 4;
  const auto channels = [&](int i) { return near_channels(values, step, i); };
  if (Values::mixes && code >= RegisterProgram::folds) {
    if constexpr (Values::mixes) mix_wide<E>(values, code, step, x, rows);
    return;
  }
  if (code >= RegisterProgram::with_tensor)
    return with_tensor_type<E>(step, [&]<class T>() { add_tensor<E, T, 0>(values, step, x); });
  switch (code) {
    case RegisterProgram::scale_bias_by_number:
      apply_line<groups>(step, x);
      break;
    case RegisterProgram::scale_bias:
      apply_lines<groups, Values>(x, channels);
      break;
#define CONVT_OP(name, Type)                                                  \
  case static_cast<int>(OpNumber::name):                                      \
    if constexpr (Unrolled<ops_in_registers::Type>)                           \
      apply_op<E, ops_in_registers::Type, groups, Values>(step, x, channels); \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

// A narrow step on some groups from `first` on: any step but statistics that need shuffles. aside: kept
// values.
template <class E, int groups, class Values, int parts, int count>
__device__ void apply_some(const Values& values, int first, int code, const RegisterProgram::Step& step,
                           float (&x)[parts][count], RowStatistics<parts>& rows, float (&aside)[parts][4 * groups]) {
  if (code >= RegisterProgram::folds) {
    if constexpr (Values::mixes) mix_some<E, groups>(values, first, code, step, x, rows);
    return;
  }
  if (code >= RegisterProgram::with_tensor) {
    float other[parts][4 * groups];
    if (code < RegisterProgram::with_kept) {
      with_tensor_type<E>(step, [&]<class T>() { values.template load_others<T, groups>(step, first, other); });
    } else {
      if constexpr (!Values::has_room) keep_in_memory(aside);
#pragma unroll
      for (int k = 0; k < parts * groups * 4; ++k) other[k % parts][k / parts] = aside[k % parts][k / parts];
    }
    return apply_both<E, groups, 0, false>(code % RegisterProgram::ops_each, step, x, other);
  }
  const auto channels = [&](int i) { return both_channels(values, step, first + i); };
  switch (code) {
    case RegisterProgram::keep:
#pragma unroll
      for (int k = 0; k < parts * groups * 4; ++k) aside[k % parts][k / parts] = x[k % parts][k / parts];
      if constexpr (!Values::has_room) keep_in_memory(aside);
      break;
    case RegisterProgram::scale_bias_by_number:
      apply_line<groups>(step, x);
      break;
    case RegisterProgram::scale_bias:
      apply_lines<groups, Values>(x, channels);
      break;
#define CONVT_OP(name, Type)                                                \
  case static_cast<int>(OpNumber::name):                                    \
    apply_op<E, ops_in_registers::Type, groups, Values>(step, x, channels); \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

}  // namespace convt::core::cuda::sm90
