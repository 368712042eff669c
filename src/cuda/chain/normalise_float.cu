// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/normalise.cuh"

namespace convt::core::cuda {

// Each element type has a file, as they take long to compile.
extern template void launch_spans_of<convt_f16, float>(const SpanParams&, cudaStream_t);
extern template void launch_spans_of<convt_bf16, float>(const SpanParams&, cudaStream_t);
extern template void launch_normalise_of<convt_f16, float>(NormaliseParams, int, cudaStream_t);
extern template void launch_normalise_of<convt_bf16, float>(NormaliseParams, int, cudaStream_t);

template <>
void launch_spans<float>(const SpanParams& p, cudaStream_t stream) {
  const auto launch = p.from.dtype == CONVT_F16    ? launch_spans_of<convt_f16, float>
                      : p.from.dtype == CONVT_BF16 ? launch_spans_of<convt_bf16, float>
                                                   : launch_spans_of<float, float>;
  launch(p, stream);
}
template <>
void launch_normalise<float>(NormaliseParams p, int multiprocessors, cudaStream_t stream) {
  const auto launch = p.span.from.dtype == CONVT_F16    ? launch_normalise_of<convt_f16, float>
                      : p.span.from.dtype == CONVT_BF16 ? launch_normalise_of<convt_bf16, float>
                                                        : launch_normalise_of<float, float>;
  launch(p, multiprocessors, stream);
}

}  // namespace convt::core::cuda
