// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/launch.cuh"

namespace convt::core::cuda::sm90 {

void launch_conv_halved(Way way, int columns, const ConvParams& params, const Launch& how) {
  launch_format<float, Format::f16>(way, columns, params, how);
}

}  // namespace convt::core::cuda::sm90
