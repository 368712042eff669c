// SPDX-License-Identifier: Apache-2.0
// What is asked before f16 takes the place of tf32 (halved.cuh): the scale of each filter, and whether a sample of the
// inputs is in f16's range.
#include "cuda/sm90/halved.cuh"
#include "cuda/sm90/launchers.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// A block for each filter.
__global__ void __launch_bounds__(block_threads) scale_kernel(const __grid_constant__ ScaleParams p) {
  constexpr int warps = block_threads / warp_threads;
  __shared__ float greatest_of[warps];
  let_next_begin();
  const int thread = threadIdx.x, filter = blockIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(p.out_channels) * p.taps;  // from one input channel to the next
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
    // Of a filter of zeros, or beyond what powers of two can mend, 1: then the guard sees its weights as they are.
    int exponent = static_cast<int>(__float_as_uint(greatest) >> 23) - 127;
    if (exponent < -100 || exponent > 126) exponent = filter_exponent;
    p.scales[filter] = __uint_as_float(static_cast<unsigned>(127 + filter_exponent - exponent) << 23);
    p.scales[p.out_channels + filter] = __uint_as_float(static_cast<unsigned>(127 - filter_exponent + exponent) << 23);
  }
  wait_for_kernel_before();
}

// A group of 32 neighbouring pixels, one a lane, of 8 channels; each warp has one.
__device__ bool does_for_group(const SampleParams& p, unsigned group) {
  const unsigned pixel_groups = (p.pixels + warp_threads - 1) / warp_threads, units = (p.channels + 7) / 8;
  // Images first, then channels; each pair of them has groups at other pixels.
  const unsigned image = group % p.images, unit = group / p.images % units;
  const unsigned at = group * 2654435761U % pixel_groups * warp_threads;
  unsigned pixel = at + threadIdx.x % warp_threads;
  const bool there = pixel < p.pixels;
  const float* from = p.input + image * p.image_step + unit * 8 * p.channel_step;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    const unsigned rest = pixel / p.size[a];
    from += (pixel - rest * p.size[a]) * p.step[a];
    pixel = rest;
  }
  Halved x[8];
  bool within = true;
#pragma unroll
  for (int c = 0; c < 8; ++c) x[c].value = there && unit * 8 + c < p.channels ? from[c * p.channel_step] : 0;
#pragma unroll
  for (int c = 0; c < 8; ++c) within &= !(fabsf(x[c].value) >= beyond_f16);
  const bool few = p.pixels <= warp_threads;
  const auto does = [=](unsigned tiny, unsigned some) { return does_for_lanes(tiny, some, ~0U, few); };
  return judge_lanes(x, 8, does) && __any_sync(~0U, !within) == 0;
}

__global__ void __launch_bounds__(block_threads) sample_kernel(const __grid_constant__ SampleParams p) {
  constexpr int warps = block_threads / warp_threads;
  __shared__ int bad;
  let_next_begin();
  const int thread = threadIdx.x;
  if (thread == 0) bad = 0;
  __syncthreads();
  if (!does_for_group(p, blockIdx.x * warps + thread / warp_threads)) atomicOr(&bad, 1);
  __syncthreads();
  if (thread == 0) p.flags[blockIdx.x] = bad != 0 ? 1 : 0;
  static_assert(sample_blocks % 16 == 0);  // whole loads
  wait_for_kernel_before();
}

}  // namespace

void launch_scale(const ScaleParams& p, cudaStream_t stream, bool early) {
  launch(scale_kernel, "the kernel that scales filters", {static_cast<unsigned>(p.out_channels), stream, 0, early}, p);
}

void launch_sample(const SampleParams& p, cudaStream_t stream, bool early) {
  launch(sample_kernel, "the kernel that samples inputs", {sample_blocks, stream, 0, early}, p);
}

}  // namespace convt::core::cuda::sm90
