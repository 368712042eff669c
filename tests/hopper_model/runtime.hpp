// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime for one device, the model. Memory of the device is the host's; work is done when a call returns.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "hopper_model/machine.hpp"

namespace hopper_model {

inline constexpr int multiprocessors = 5;  // few, so that blocks have several tiles; a prime, so that they change bands

// Prints what went wrong, and cudaGetErrorString() says it.
cudaError_t launch(const void* function, const Work& work, const std::function<void()>& kernel);
cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value);

}  // namespace hopper_model
