// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/kernel/launch.cuh"

namespace convt::core::cuda::sm90 {

void launch_conv_f16x3(const Config& config, int columns, const ConvParams& params, const Launch& how) {
  launch_format<float, Format::f16x3, void>(config, columns, params, how);
}

}  // namespace convt::core::cuda::sm90
