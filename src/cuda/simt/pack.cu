// SPDX-License-Identifier: Apache-2.0
// Packs weights in the order in which the convolution reads them.
#include "cuda/chain/element.cuh"
#include "cuda/simt/launchers.hpp"

namespace convt::core::cuda::simt {
namespace {

__device__ std::int64_t first_item() { return static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; }
__device__ std::int64_t all_threads() { return static_cast<std::int64_t>(gridDim.x) * block_threads; }

template <class T>
__global__ void __launch_bounds__(block_threads) pack_kernel(const __grid_constant__ PackParams p) {
  for (std::int64_t i = first_item(); i < p.groups * p.taps * p.depth * p.padded_rows; i += all_threads()) {
    const std::int64_t row = i % p.padded_rows, channel = i / p.padded_rows % p.depth;
    const std::int64_t tap = i / p.padded_rows / p.depth % p.taps, group = i / p.padded_rows / p.depth / p.taps;
    T weight = 0;
    if (row < p.rows) weight = load<T>(p.kernel, ((group * p.depth + channel) * p.rows + row) * p.taps + tap, p.dtype);
    static_cast<T*>(p.weights)[i] = weight;
    if (!isfinite(weight)) atomicOr(p.nonfinite, 1);
  }
}

}  // namespace

template <class T>
void launch_pack(const PackParams& p, cudaStream_t stream) {
  const std::int64_t count = p.groups * p.taps * p.depth * p.padded_rows;
  clear(p.nonfinite, sizeof(int), stream);
  launch(pack_kernel<T>, "the kernel that packs weights", {blocks_for(count, block_threads, 1 << 16), stream, 0}, p);
}
template void launch_pack<float>(const PackParams&, cudaStream_t);
template void launch_pack<double>(const PackParams&, cudaStream_t);

}  // namespace convt::core::cuda::simt
