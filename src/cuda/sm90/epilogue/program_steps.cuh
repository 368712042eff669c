// SPDX-License-Identifier: Apache-2.0
// Runs steps of a register program on a few accumulators at a time. The op of a step is chosen once for all of them, by
// a uniform branch. Accumulators cannot be indexed, so take_values() moves a few of them to fixed registers: a kernel
// has the code of each op once.
//
// `values` describes the accumulators at hand (epilogue/program_values.cuh). `aside` has as many floats: the
// convolution's own results, or two statistics of each row (epilogue/program_mix.cuh).
#pragma once

#include "cuda/chain/ops.cuh"
#include "cuda/sm90/epilogue/real.cuh"
#include "cuda/sm90/epilogue/scale_bias.cuh"

// The ops' math once more, for values whose functions only devices have (families.hpp).
#pragma push_macro("CONVT_FN")
#undef CONVT_FN
#define CONVT_FN __device__
#define CONVT_OPS ops_in_registers
#include "convt_ops_includes.hpp"
#undef CONVT_OPS
#pragma pop_macro("CONVT_FN")

#include "cuda/sm90/epilogue/program_mix.cuh"

namespace convt::core::cuda::sm90 {

// Per-channel values of a step: a and b of a scale and bias; or the operand of an op with one value per channel, or its
// number, and nothing.
__device__ inline float2 channel_values(const RegisterProgram::Step& step, int channel) {
  const bool is_line = step.code == RegisterProgram::scale_bias;
  if (!is_line && step.data[0] == nullptr) return {step.numbers[0], 0};
  if (!is_line) return {load<float>(step.data[0], channel, step.dtype), 0};
  if (step.data[0] == nullptr) return {1, 0};
  return {at<float>(step.data[0], channel), at<float>(step.data[1], channel)};
}

// Fills shared memory with a band's per-channel values, [row][column], if those of another band are there. `threads`
// threads call it.
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

// Per-channel values of both channels that a thread's accumulators at hand belong to.
struct TwoChannels {
  float2 of[2];
};

template <class Values>
__device__ TwoChannels both_channels(const Values& values, const RegisterProgram::Step& step) {
  if (step.row >= 0) return values.in_row(step.row);
  TwoChannels both;
#pragma unroll
  for (int which = 0; which < 2; ++which)
    both.of[which] = channel_values(step, min(values.channel(which), step.channels - 1));
  return both;
}

// An op that sees one value, or that and one value per channel.
template <class E, class Op, class Values, int count>
__device__ void apply_op(const Values& values, const RegisterProgram::Step& step, float (&x)[count]) {
  using V = Real<E>;
  if constexpr (std::derived_from<Op, Pointwise>) {
    const Op op = op_of<Op>(step);
#pragma unroll
    for (float& v : x) v = op.apply(V::of(v)).x;
  } else if constexpr (std::derived_from<Op, Combine> && !LinearCombine<Op>) {
    const Op& op = *reinterpret_cast<const Op*>(step.params.bytes);
    const TwoChannels other = both_channels(values, step);
#pragma unroll
    for (int k = 0; k < count; ++k) x[k] = op.apply(V::of(x[k]), V::of(other.of[Values::channel_of(k)].x)).x;
  }
}
template <class E, class Values, int count>
__device__ void apply_alone(const Values& values, int code, const RegisterProgram::Step& step, float (&x)[count],
                            float (&aside)[count]) {
  switch (code) {
    case RegisterProgram::keep:
      if constexpr (Values::has_aside) {
#pragma unroll
        for (int k = 0; k < count; ++k) aside[k] = x[k];
      }
      break;
    case RegisterProgram::scale_bias_by_number: {
      const float a = step.numbers[0], b = step.numbers[1];
#pragma unroll
      for (float& v : x) v = fmaf(a, v, b);
      break;
    }
    case RegisterProgram::scale_bias: {
      const TwoChannels both = both_channels(values, step);
#pragma unroll
      for (int k = 0; k < count; ++k) {
        const float2& own = both.of[Values::channel_of(k)];
        x[k] = fmaf(own.x, x[k], own.y);
      }
      break;
    }
#define CONVT_OP(name, Type)                              \
  case static_cast<int>(OpNumber::name):                  \
    apply_op<E, ops_in_registers::Type>(values, step, x); \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

// Ops with another value for each element.
template <class E, int count>
__device__ void apply_both(int op, const RegisterProgram::Step& step, float (&x)[count], const float (&other)[count]) {
  const auto apply = [&]<class Op>() {
    if constexpr (std::derived_from<Op, Combine>) {
      const Op& math = *reinterpret_cast<const Op*>(step.params.bytes);
#pragma unroll
      for (int k = 0; k < count; ++k) x[k] = math.apply(Real<E>::of(x[k]), Real<E>::of(other[k])).x;
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

template <class E, class Values, int count>
__device__ void apply_step(const Values& values, int code, const RegisterProgram::Step& step, float (&x)[count],
                           float (&aside)[count]) {
  if (code < RegisterProgram::with_tensor) {
    apply_alone<E>(values, code, step, x, aside);
  } else if (code < RegisterProgram::folds) {
    float other[count];
    if (!Values::has_aside || code < RegisterProgram::with_conv) {
      values.template load_others<E>(step, other);
    } else {
#pragma unroll
      for (int k = 0; k < count; ++k) other[k] = aside[k];
    }
    apply_both<E>(code % RegisterProgram::ops_each, step, x, other);
  } else if constexpr (Values::mixes) {
    apply_mixing<E>(values, code, step, x, aside);
  }
}

// Steps [first, end). Results are of type E.
template <class E, class Values, int count>
__device__ void run_steps(const Values& values, int first, int end, float (&x)[count], float (&aside)[count]) {
  const RegisterProgram& program = values.p.program;
  int next = program.codes[first];  // which is loaded while the step before it runs
#pragma unroll 1
  for (int s = first; s < end; ++s) {
    const int code = next;
    next = program.codes[s + 1];
    apply_step<E>(values, code, program.steps[s], x, aside);
  }
}

// f<i>() for the i that `number` is, one of `all`.
template <int all, class F>
__device__ void with_number(int number, F&& f) {
  static_assert(all <= 32);
  const auto call = [&]<int own>() {
    if constexpr (own < all)
      f.template operator()<own>();
    else
      __builtin_unreachable();
  };
  switch (number) {
#define CONVT_NUMBER(own)            \
  case own:                          \
    call.template operator()<own>(); \
    break;
#define CONVT_NUMBERS(own) CONVT_NUMBER(own) CONVT_NUMBER(own + 1) CONVT_NUMBER(own + 2) CONVT_NUMBER(own + 3)
    CONVT_NUMBERS(0)
    CONVT_NUMBERS(4)
    CONVT_NUMBERS(8)
    CONVT_NUMBERS(12)
    CONVT_NUMBERS(16)
    CONVT_NUMBERS(20)
    CONVT_NUMBERS(24)
    CONVT_NUMBERS(28)
#undef CONVT_NUMBERS
#undef CONVT_NUMBER
    default:
      __builtin_unreachable();  // else old register contents are preserved for it
  }
}
// Moves the accumulators [each * number, each * (number + 1)) of every part to x, and back.
template <int each, int parts, int all>
__device__ void take_values(const float (&sums)[parts][all], int number, float (&x)[parts * each]) {
  with_number<all / each>(number, [&]<int own>() {
#pragma unroll
    for (int k = 0; k < parts * each; ++k) x[k] = sums[k / each][own * each + k % each];
  });
}
template <int each, int parts, int all>
__device__ void put_values(const float (&x)[parts * each], int number, float (&sums)[parts][all]) {
  with_number<all / each>(number, [&]<int own>() {
#pragma unroll
    for (int k = 0; k < parts * each; ++k) sums[k / each][own * each + k % each] = x[k];
  });
}

}  // namespace convt::core::cuda::sm90
