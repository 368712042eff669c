// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/convolver.hpp"

namespace convt::core::cuda::sums {

// Makes the convolver of a program whose convolution has one result pixel: `factor` times the sum over all pixels of
// the asked convolution.
std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program, double factor,
                                                const DeviceProperties& device);

}  // namespace convt::core::cuda::sums
