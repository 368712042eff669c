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

// One op of the prologue or of the chain, with the shapes on both sides of it.
struct Stage {
  Op op;
  Shape in, out;
  std::size_t first_operand = 0;  // its operands are consecutive in Descriptor::operands
  std::size_t operand_count = 0;
};

struct Operand {
  OperandSpec spec;
  std::size_t stage = 0;  // of the prologue, if its name says so, or else of the chain
  convt_dtype dtype = CONVT_F32;
  std::int64_t count = 0;
};

// How a tensor lies in memory: elements from one image, channel and pixel to the next.
struct Pitches {
  std::int64_t image = 0, channel = 0, pixel = 0;
};
// Of a range of the channels of a tensor that has `within` of them.
Pitches pitches_of(convt_layout layout, const Shape& shape, std::int64_t within);

struct Descriptor {
  int dims = 3;
  convt_dtype dtype = CONVT_F32;
  convt_layout input_layout = CONVT_CHANNELS_FIRST;
  convt_layout output_layout = CONVT_CHANNELS_FIRST;  // also of whole-tensor operands
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  Convolution convolution;
  Shape input, conv, output;  // conv: the convolution's own result
  std::int64_t kernel_count = 0;
  // Channels of the tensors in memory: those of `input` and `output`, or more, of which they are a range.
  std::int64_t input_within = 0, output_within = 0;
  std::vector<Stage> prologue;  // of the input, whose shape stays
  std::vector<Stage> stages;    // of the chain
  std::vector<Operand> operands;
  std::string text;           // canonical
  std::string chain;          // the part of it behind the convolution; "" when there is none
  std::string prologue_text;  // the part before it

  bool keeps_conv() const;                      // some stage uses the convolution's own result
  std::size_t kept_at(const Name& name) const;  // the stage that keeps a value under this name
  bool slices_input() const { return input_within != input.channels; }
  bool slices_output() const { return output_within != output.channels; }
  Pitches input_pitches() const { return pitches_of(input_layout, input, input_within); }
  Pitches output_pitches() const { return pitches_of(output_layout, output, output_within); }
};

// Rejects sizes, parameters and chains that break a rule.
Descriptor validate(const Problem& problem);

}  // namespace convt::core
