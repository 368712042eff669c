// SPDX-License-Identifier: Apache-2.0
// A problem that was checked: what planners and engines see. Immutable once made; every size fits 63 bits, every
// tensor's size in bytes too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convt/convt.h"
#include "epilogue/op.hpp"
#include "problem/problem.hpp"

namespace convt::core {

struct Convolution {
  std::int64_t in_channels = 0, out_channels = 0, groups = 1;
  Axes input{}, output{};  // sizes of space
  Axes kernel{}, stride{}, padding{}, output_padding{}, dilation{};
};

// One op of the chain, with the shapes on both sides of it.
struct Stage {
  Op op;
  Shape in, out;
  std::size_t first_operand = 0;  // its operands are consecutive in Descriptor::operands
  std::size_t operand_count = 0;
};

struct Operand {
  OperandSpec spec;
  std::size_t stage = 0;
  convt_dtype dtype = CONVT_F32;
  std::int64_t count = 0;
};

struct Descriptor {
  int dims = 3;
  convt_dtype dtype = CONVT_F32;
  convt_layout input_layout = CONVT_CHANNELS_FIRST;
  convt_layout output_layout = CONVT_CHANNELS_FIRST;  // also of whole-tensor operands
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  Convolution convolution;
  Shape input, conv, output;  // conv: the convolution's own result
  std::int64_t kernel_count = 0;
  std::vector<Stage> stages;
  std::vector<Operand> operands;
  std::string text;   // canonical
  std::string chain;  // the part of it behind the first '|'; "" when there is none

  bool keeps_conv() const;  // some stage uses the convolution's own result
};

// Rejects sizes, parameters and chains that break a rule.
Descriptor validate(const Problem& problem);

}  // namespace convt::core
