// SPDX-License-Identifier: Apache-2.0
// The scale of each filter for f16 (loader/range_guard.cuh).
#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/loader/pack.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// One block for each filter.
__global__ void __launch_bounds__(block_threads) scale_kernel(const __grid_constant__ ScaleParams p) {
  constexpr int warps = block_threads / warp_threads;
  __shared__ float greatest_of[warps];
  let_next_begin();
  const int thread = threadIdx.x, filter = blockIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(p.out_channels) * p.taps;  // between input channels
  const float* const weights = p.kernel + static_cast<std::int64_t>(filter) * p.taps;
  float greatest = 0;
  int channel = thread / p.taps, tap = thread % p.taps;
  const int channels = block_threads / p.taps, taps = block_threads % p.taps;  // to the thread's next weight
  while (channel < p.in_channels) {
    greatest = fmaxf(greatest, fabsf(weights[channel * step + tap]));
    channel += channels;
    tap += taps;
    if (tap >= p.taps) {
      tap -= p.taps;
      ++channel;
    }
  }
  greatest = greatest_of_warp(greatest);
  if (thread % warp_threads == 0) greatest_of[thread / warp_threads] = greatest;
  __syncthreads();
  if (thread == 0) {
    for (const float other : greatest_of) greatest = fmaxf(greatest, other);
    // The scale is 1 for filters that no power of two brings into range: the guard then sees their weights unscaled.
    // f16x3 takes the least scale of all filters, so filters of zeros have the largest one.
    constexpr int least = -100;
    int exponent = greatest == 0 ? least : static_cast<int>(__float_as_uint(greatest) >> 23) - 127;
    if (exponent < least || exponent > 126) exponent = filter_exponent;
    p.scales[filter] = __uint_as_float(static_cast<unsigned>(127 + filter_exponent - exponent) << 23);
    p.scales[p.out_channels + filter] = __uint_as_float(static_cast<unsigned>(127 - filter_exponent + exponent) << 23);
  }
  wait_for_kernel_before();
}

}  // namespace

void launch_scale(const ScaleParams& p, cudaStream_t stream, bool early) {
  launch(scale_kernel, "the kernel that scales filters", {static_cast<unsigned>(p.out_channels), stream, 0, early}, p);
}

}  // namespace convt::core::cuda::sm90
