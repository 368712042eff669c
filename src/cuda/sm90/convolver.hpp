// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/generic/convolver.hpp"
#include "cuda/sm90/tiles.hpp"

namespace convt::core::cuda::sm90 {

// One way of cutting: a tile for chains that run in registers; one for those of them whose results cannot be stored as
// wide ones, twins or rows are, for their dtype, layout or distances; one for pools that run in registers too; and one
// for all others.
struct Choice {
  Geometry geometry;
  Tile quick, narrow, folded, strip;
};

// Whether kernels of short chains can store there: they count some steps of an output with so many phases of each axis
// in 32 bits.
bool has_near_results(const Strides& to, const Axes& phases);

std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program, const DeviceProperties& device,
                                                const Choice& choice);

}  // namespace convt::core::cuda::sm90
