// SPDX-License-Identifier: Apache-2.0
// Evaluates the constants of Affine steps on the device, as evaluate() in plan/program.cpp does on the host.
#include "cuda/chain/element.cuh"
#include "cuda/chain/launchers.hpp"
#include "cuda/chain/ops.cuh"
#include "cuda/common/instructions.cuh"
#include "plan/line.hpp"

namespace convt::core::cuda {
namespace {

using Part = AffineParams::Part;

__device__ double load_any(const void* data, int index, convt_dtype dtype) {
  return dtype == CONVT_F64 ? at<double>(data, index) : static_cast<double>(load<float>(data, index, dtype));
}

__device__ Line apply_part(const Part& part, Line line, int channel) {
  double operands[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < part.operand_count) operands[i] = load_any(part.operands[i], channel, part.dtypes[i]);
  if (part.role == Part::combine)
    visit<Combine>(part.op, part.params.bytes, [&]<class T>(const T& op) {
      if constexpr (LinearCombine<T>) line = apply_line(op, line, operands);
    });
  else
    visit<ops_device::Norm>(part.op, part.params.bytes, [&](const auto& op) {
      line = apply_line(math_of(op), part.role == Part::norm_given, line, operands);
    });
  return line;
}

// The sum of all threads' values, in a fixed order. Every thread gets it.
__device__ double sum_of_block(double own) {
  __shared__ double sums[block_threads];
  __syncthreads();  // the previous sum may still be read
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = block_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// Runs as one block. Lines stay in memory between parts. After a reduction, the only line is that of channel 0.
template <class T>
__global__ void affine_kernel(const __grid_constant__ AffineParams p) {
  let_next_begin();
  int channels = p.channels;
  for (int c = threadIdx.x; p.first && c < channels; c += block_threads) {
    p.lines[2 * c] = 1;
    p.lines[2 * c + 1] = 0;
  }
  for (int i = 0; i < p.count; ++i) {
    const Part& part = p.parts[i];
    double sum = 0;
    for (int c = threadIdx.x; c < channels; c += block_threads) {
      Line line(p.lines[2 * c], p.lines[2 * c + 1]);
      if (part.role == Part::reduction) {
        sum += line.b;
        continue;
      }
      line = apply_part(part, line, c);
      p.lines[2 * c] = line.a;
      p.lines[2 * c + 1] = line.b;
    }
    if (part.role == Part::reduction) {
      sum = sum_of_block(sum);
      if (threadIdx.x == 0) p.lines[1] = part.factor * sum;
      channels = 1;
    }
  }
  if (!p.last) return;
  for (int c = threadIdx.x; c < channels; c += block_threads) {
    static_cast<T*>(p.a)[c] = static_cast<T>(p.lines[2 * c]);
    static_cast<T*>(p.b)[c] = static_cast<T>(p.lines[2 * c + 1]);
  }
}

}  // namespace

template <class T>
void launch_affine(const AffineParams& params, cudaStream_t stream) {
  launch(affine_kernel<T>, "the kernel of constants", {1, stream, 0}, params);
}
template void launch_affine<float>(const AffineParams&, cudaStream_t);
template void launch_affine<double>(const AffineParams&, cudaStream_t);

}  // namespace convt::core::cuda
