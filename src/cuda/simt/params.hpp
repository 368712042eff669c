// SPDX-License-Identifier: Apache-2.0
// Parameters of the convolution's kernels, by value.
#pragma once

#include "cuda/chain/params.hpp"
#include "plan/taps.hpp"

namespace convt::core::cuda::simt {

// The shapes of blocks. Rows are output channels of a group, columns are positions of one phase.
enum class Shape : int { wide, middle, thin };
inline constexpr int shape_count = 3;
constexpr int rows_of(Shape shape) { return shape == Shape::wide ? 64 : shape == Shape::middle ? 32 : 8; }
constexpr int columns_of(Shape shape, bool doubles) { return (shape == Shape::thin ? 256 : 128) / (doubles ? 2 : 1); }

// One axis of a slab. Output o of its box has phase (lead + o) % stride and position (lead + o) / stride: positions are
// counted from that of the first output.
struct ConvAxis {
  TapAxis taps;
  std::int64_t lead = 0;
  int size = 1;                // outputs
  int phases = 1;              // that occur: min(stride, size)
  int lowest = 0, inputs = 1;  // the position of input 0; the number of inputs
  std::int64_t step = 0;       // from one input to the next, in elements
};

struct ConvParams {
  const void* input = nullptr;  // at the slab's first image and the first output's position
  std::int64_t image_step = 0, channel_step = 0;
  ConvAxis axis[3];
  const void* weights = nullptr;   // packed, of type T
  const int* nonfinite = nullptr;  // not 0: some weight is not finite
  int images = 1, groups = 1;
  int depth = 1;                  // input channels of a group
  int rows = 1, padded_rows = 1;  // output channels of a group; rounded up to whole blocks
  View to;
  Chain chain;
};

// Packs (in_channels, rows, taps) as [group][tap][input channel][padded row].
struct PackParams {
  const void* kernel = nullptr;
  convt_dtype dtype = CONVT_F32;
  void* weights = nullptr;
  int* nonfinite = nullptr;  // set if a weight is not finite
  std::int64_t groups = 1, depth = 1, rows = 1, padded_rows = 1, taps = 1;
};

}  // namespace convt::core::cuda::simt
