// SPDX-License-Identifier: Apache-2.0
// The parts of the cost model that the choice of columns and rows needs; predict_tile() is in tiles.hpp.
#pragma once

#include "cuda/sm90/host/tiles.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr int sector_bytes = 32;  // memory is written in sectors

// Clocks of a matrix instruction, whose columns or reads of rows bind. Measured beside other work
// (docs/hopper-notes.md).
double instruction_clocks(int columns);

}  // namespace convt::core::cuda::sm90
