// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/convolver.hpp"

namespace convt::core::cuda::simt {

// Makes a convolver that runs any convolution, by plain multiply-adds.
std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program, const DeviceProperties& device);

}  // namespace convt::core::cuda::simt
