// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/normalise.cuh"

namespace convt::core::cuda {

template void launch_spans_of<convt_f16, float>(const SpanParams&, cudaStream_t);
template void launch_normalise_of<convt_f16, float>(NormaliseParams, int, cudaStream_t);

}  // namespace convt::core::cuda
