// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/pool.cuh"

namespace convt::core::cuda {

template <>
void launch_pool<double>(const PoolSpanParams& p, cudaStream_t stream) {
  launch_pool_of<double, double>(p, stream);
}

}  // namespace convt::core::cuda
