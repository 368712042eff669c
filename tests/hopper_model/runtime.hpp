// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime for one device, the model. Memory of the device is the host's; work is done when a call returns.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "hopper_model/machine.hpp"

namespace hopper_model {

inline constexpr int multiprocessors = 5;  // few, so that blocks have several tiles; a prime, so that they change bands

// Prints what went wrong, and cudaGetErrorString() says it.
cudaError_t launch(const void* function, const Work& work, const std::function<void()>& kernel);
// The kernels that this thread has launched, the last one at the end. Tests may clear it.
std::vector<const void*>& launched();
cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value);

}  // namespace hopper_model
