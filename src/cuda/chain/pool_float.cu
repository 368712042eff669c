// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/pool.cuh"

namespace convt::core::cuda {

template <>
void launch_pool<float>(const PoolSpanParams& p, cudaStream_t stream) {
  const auto launch = p.span.from.dtype == CONVT_F16    ? launch_pool_of<convt_f16, float>
                      : p.span.from.dtype == CONVT_BF16 ? launch_pool_of<convt_bf16, float>
                                                        : launch_pool_of<float, float>;
  launch(p, stream);
}

}  // namespace convt::core::cuda
