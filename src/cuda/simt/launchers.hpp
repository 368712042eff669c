// SPDX-License-Identifier: Apache-2.0
// The convolution's kernels, as host code sees them.
#pragma once

#include "cuda/common/launch.hpp"
#include "cuda/simt/params.hpp"

namespace convt::core::cuda::simt {

// E is the element type of the input: float, double, convt_f16, convt_bf16.
template <class E>
void launch_conv(Shape shape, const ConvParams& params, const Launch& how);

template <class T>
void launch_pack(const PackParams& params, cudaStream_t stream);

}  // namespace convt::core::cuda::simt
