// SPDX-License-Identifier: Apache-2.0
// The Hopper convolution's kernels, as host code sees them.
#pragma once

#include "cuda/common/launch.hpp"
#include "cuda/sm90/params.hpp"

namespace convt::core::cuda::sm90 {

// Output channels of one band: columns of the matrix instruction.
inline constexpr int all_columns[] = {8, 24, 32, 64};

// How a warpgroup uses its registers: for one block of 64 positions, or two.
enum class Way : int {
  strip,   // the chain runs in shared memory: any chain
  single,  // one phase along w at a time
  paired,  // two neighbouring phases along w at a time
  folded,  // all phases of a position, one after the other, into one result
  march,   // three neighbouring outputs along an axis at a time: march.cuh
};
constexpr bool can_fold(int columns) { return columns == 32 || columns == 64; }
constexpr int blocks_of(Way way, int columns) {
  return way == Way::strip || (way == Way::march && columns == 64) ? 1 : 2;
}

void launch_conv_tf32(Way way, int columns, const ConvParams& params, const Launch& how);
void launch_conv_f16(Way way, int columns, const ConvParams& params, const Launch& how);
void launch_conv_bf16(Way way, int columns, const ConvParams& params, const Launch& how);

void launch_pack(const PackParams& params, convt_dtype element, cudaStream_t stream);

}  // namespace convt::core::cuda::sm90
