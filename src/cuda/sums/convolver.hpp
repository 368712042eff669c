// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/convolver.hpp"

namespace convt::core::cuda::sums {

// Of a program whose convolution's result has one pixel: `factor` times the sum of what the asked convolution has.
std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program, double factor,
                                                const DeviceProperties& device);

}  // namespace convt::core::cuda::sums
