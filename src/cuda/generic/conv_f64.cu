// SPDX-License-Identifier: Apache-2.0
#include "cuda/generic/conv.cuh"

namespace convt::core::cuda::generic {

template void launch_conv<double>(Shape, const ConvParams&, const Launch&);

}  // namespace convt::core::cuda::generic
