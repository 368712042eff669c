// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/kernel/launch.cuh"

namespace convt::core::cuda::sm90 {

void launch_conv_tf32x3(const Config& config, int columns, const ConvParams& params, const Launch& how) {
  launch_format<float, Format::tf32x3, void>(config, columns, params, how);
}

}  // namespace convt::core::cuda::sm90
