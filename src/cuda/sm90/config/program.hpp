// SPDX-License-Identifier: Apache-2.0
// A register program: a chain that runs on the accumulators step by step, whatever its ops. host/make_program.cpp makes
// it, epilogue/program.cuh runs it. Register epilogues have their own code, which is faster.
//
// Choosing an op by its number takes longer than its math on a few values. So a wide step runs on all accumulators of a
// thread at once. Its code is unrolled over all of them, which pays for ops that are short or common (Unrolled in
// epilogue/families.hpp). A narrow step runs on a part of the accumulators at a time. A pass is a sequence of wide
// steps, or of narrow ones.
#pragma once

#include "cuda/chain/params.hpp"

namespace convt::core::cuda::sm90 {

struct RegisterProgram {
  static constexpr int most_steps = 32, most_numbers = 4;
  // Steps whose per-channel values are in shared memory. Further steps read theirs from global memory.
  static constexpr int most_rows = 3;

  // What a step does. A code below ops_each is an op's index in ops.def: the op runs alone or with one value per
  // channel. With one of the offsets below, it runs with a whole tensor or the kept value, or is a part of a norm or
  // reduction. Negative codes are no ops.
  enum Code : int {
    keep = -3,                  // keeps the value, in place of the one that was kept before
    scale_bias = -2,            // a*x + b, by channel
    scale_bias_by_number = -1,  // a*x + b, with one a and one b
    with_tensor = 64,
    with_kept = 128,
    folds = 192,     // first statistic
    deviates = 256,  // second statistic; only its sums by thread, if `scales` follows
    scales = 320,    // what is left of the second statistic
    maps = 384,      // the normalised or reduced value
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
    int aligned = 1;  // elements of a tensor that can be loaded together: 1, 2 or 4
  };
  // Steps [first, end).
  struct Pass {
    std::int16_t first = 0, end = 0;
    bool wide = false;
    bool one = false;  // after a reduction: there is one channel
  };
  int codes[most_steps + 1] = {};  // of the steps, side by side
  int count = 0;
  int pass_count = 0;
  int channels = 1;               // after the program
  int rows = 0;                   // of per-channel values in shared memory
  int tensors = 0;                // steps with whole tensors
  int row_steps[most_rows] = {};  // their steps
  Pass passes[most_steps];
  Step steps[most_steps];
};

}  // namespace convt::core::cuda::sm90
