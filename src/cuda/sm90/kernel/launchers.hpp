// SPDX-License-Identifier: Apache-2.0
// Launches of the convolution's kernels, by operand format; for host code.
#pragma once

#include "cuda/common/launch.hpp"
#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

void launch_conv_tf32_as_f16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_conv_tf32(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_conv_f16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_conv_bf16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_conv_f16x3(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_conv_tf32x3(const Config& config, int columns, const ConvParams& params, const Launch& how);
// Kernels that run register programs.
void launch_program_tf32_as_f16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_program_tf32(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_program_f16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_program_bf16(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_program_f16x3(const Config& config, int columns, const ConvParams& params, const Launch& how);
void launch_program_tf32x3(const Config& config, int columns, const ConvParams& params, const Launch& how);

}  // namespace convt::core::cuda::sm90
