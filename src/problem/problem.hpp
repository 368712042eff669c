// SPDX-License-Identifier: Apache-2.0
// What the user asked for, before anyone has checked it, and its text form.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "convt/convt.h"
#include "epilogue/op.hpp"

namespace convt::core {

// As users count sizes; entries for D, H, W, of which a problem of fewer dimensions leaves the first ones alone.
using RawAxes = std::array<std::size_t, 3>;

struct Problem {
  std::size_t dims = 3;
  convt_dtype dtype = CONVT_F32;
  convt_layout input_layout = CONVT_CHANNELS_FIRST;
  convt_layout output_layout = CONVT_CHANNELS_FIRST;
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  std::size_t batch_size = 1;
  std::size_t in_channels = 0;
  std::size_t out_channels = 0;
  std::size_t groups = 1;
  RawAxes input{1, 1, 1};
  RawAxes kernel{1, 1, 1};
  RawAxes stride{1, 1, 1};
  RawAxes padding{0, 0, 0};
  RawAxes output_padding{0, 0, 0};
  RawAxes dilation{1, 1, 1};
  // Channels of the tensors in memory, of which the input's and the output's are a range; 0: no more than they have.
  std::size_t input_within = 0;
  std::size_t output_within = 0;
  Chain prologue;  // on the input, before the convolution
  Chain chain;
};

// The per-axis parameters, for code that treats them alike.
struct AxisParameter {
  std::string_view name;  // as in the text form; "input" stands for depth, height, width
  RawAxes Problem::*member;
  std::size_t fallback;
  bool required;
};
inline constexpr std::array<AxisParameter, 6> axis_parameters{{
    {"input", &Problem::input, 1, true},
    {"kernel", &Problem::kernel, 1, true},
    {"stride", &Problem::stride, 1, false},
    {"padding", &Problem::padding, 0, false},
    {"output_padding", &Problem::output_padding, 0, false},
    {"dilation", &Problem::dilation, 1, false},
}};

// "conv_transpose3d dtype=f32 batch=2 channels=32->64 input=16x32x32 kernel=4 stride=2 padding=1 | bias | gelu"
Problem parse_problem(std::string_view text);
std::string print(const Problem& problem);

}  // namespace convt::core
