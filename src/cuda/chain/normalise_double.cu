// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/normalise.cuh"

namespace convt::core::cuda {

template <>
void launch_spans<double>(const SpanParams& p, cudaStream_t stream) {
  launch_spans_of<double, double>(p, stream);
}
template <>
void launch_normalise<double>(NormaliseParams p, int multiprocessors, cudaStream_t stream) {
  launch_normalise_of<double, double>(p, multiprocessors, stream);
}

}  // namespace convt::core::cuda
