// SPDX-License-Identifier: Apache-2.0
#include "cuda/simt/conv.cuh"

namespace convt::core::cuda::simt {

template void launch_conv<double>(Shape, const ConvParams&, const Launch&);

}  // namespace convt::core::cuda::simt
