// SPDX-License-Identifier: Apache-2.0
// A register program: a chain that runs on the accumulators step by step, whatever its ops. host/make_program.cpp makes
// it, epilogue/program_steps.cuh runs it. Register epilogues have their own code, which is faster.
//
// A thread has a few accumulators at hand at a time, so a program runs in passes over all accumulators. A step that
// mixes channels ends a pass: a norm takes one pass for its mean and one for its variance, and the next pass begins
// with the normalised values.
#pragma once

#include "cuda/chain/params.hpp"

namespace convt::core::cuda::sm90 {

struct RegisterProgram {
  static constexpr int most_steps = 32, most_passes = 16, most_numbers = 4;
  // Steps whose per-channel values shared memory holds. Those of further steps are read from global memory.
  static constexpr int most_rows = 3;

  // What a step does: an op, by its index in ops.def, alone or with one value per channel; that index plus one of
  // these, with a whole tensor or the convolution's own result, or as part of a norm or reduction; or no op.
  enum Code : int {
    keep = -3,                  // keeps the convolution's own result
    scale_bias = -2,            // a*x + b, by channel
    scale_bias_by_number = -1,  // the same for all channels
    with_tensor = 64,
    with_conv = 128,
    folds = 192,     // first statistic
    deviates = 256,  // second statistic
    maps = 320,      // the normalised or reduced value
    ops_each = 64,
    norm = 63,  // any norm: their math is the same
  };
  struct Step {
    int code = scale_bias_by_number;
    int row = -1;      // row of its per-channel values in shared memory; -1: none
    int channels = 1;  // of its input
    // An op's parameters, and the numbers among them as floats, by their index in fields(). For scale_bias_by_number: a
    // and b.
    OpBytes<40> params{};
    float numbers[most_numbers] = {1, 0};
    // For scale_bias: a and b by channel; if both are null, a = 1 and b = 0. For a Combine: its operand, in the layout
    // of the results.
    const void* data[2] = {};
    convt_dtype dtype = CONVT_F32;
    bool pairs = false;  // pairs of a tensor's elements are aligned
  };
  // Steps [first, end) over all accumulators.
  struct Pass {
    int first = 0, end = 0;
    int statistic = -1;    // its last step, if that takes a statistic; else -1
    bool changes = false;  // it changes accumulators
    bool stores = false;   // it stores results
    bool one = false;      // after a reduction: there is one channel
  };
  int codes[most_steps + 1] = {};  // of the steps, side by side
  int count = 0;
  int pass_count = 0;
  int channels = 1;               // after the program
  int rows = 0;                   // of per-channel values in shared memory
  int row_steps[most_rows] = {};  // their steps
  Pass passes[most_passes];
  Step steps[most_steps];
};

// Row tiles that a program has at hand at a time: registers are few beside 128 accumulators.
CONVT_FN constexpr int m_tiles_at_hand(int columns, int joint, int m_tiles) {
  return columns / 2 * joint * m_tiles >= 128 ? 1 : m_tiles;
}

}  // namespace convt::core::cuda::sm90
