// SPDX-License-Identifier: Apache-2.0
// What docs/numerics.md promises of float32's precisions, whatever the scale of a filter, a channel, a tap, an image or
// a region. tf32: the error of each region is at most twice that of operands rounded to tf32, and a little of float32's
// own. ieee: it is float32's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "execution.hpp"

namespace convt::testing {

// Ways to rescale a layer's tensors, by name.
const std::vector<std::string>& rescalings();

// Layers that take different kernels: text behind "conv_transpose", without a dtype.
const std::vector<std::string>& promised_layers();
// The same with a norm behind the convolution.
const std::vector<std::string>& promised_norms();

// How far a layer is from its promise: the largest error of a region, in units of what is allowed. At most 1 where the
// promise holds. The regions are those of each output channel of each image, cut along w into quarters of at least 32
// outputs. Where a chain follows, its result is held to the same, for whole images, and to 5e-5 of them.
double worst_region(const std::string& layer, const std::string& rescaling, std::uint64_t seed,
                    const PlanOptions& options, const cli::Place& place, const std::string& precision = "tf32");

}  // namespace convt::testing
