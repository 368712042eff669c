// SPDX-License-Identifier: Apache-2.0
// The kernels that prepare weights, as host code sees them.
#pragma once

#include "cuda/common/launch.hpp"
#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

// early: Launch::early.
void launch_scale(const ScaleParams& params, cudaStream_t stream, bool early);
// format: what elements become. element: their bytes.
void launch_pack(const PackParams& params, Format format, int element, cudaStream_t stream, bool early);

}  // namespace convt::core::cuda::sm90
