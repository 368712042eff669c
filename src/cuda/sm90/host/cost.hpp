// SPDX-License-Identifier: Apache-2.0
// The cost model: seconds_of(), and what the choice of columns and rows needs of it.
#pragma once

#include "cuda/sm90/host/tiles.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr int sector_bytes = 32;  // memory is written in sectors

// Clocks of a matrix instruction: bound by its columns, or by the reads of its rows; measured among other work
// (docs/hopper-notes.md).
double instruction_clocks(int columns);

// Rows of a sliding plane, in all row tiles.
inline constexpr int sliding_rows = roles_of(configs::sliding).consumers * configs::sliding.m_tiles() * m_tile_rows;

}  // namespace convt::core::cuda::sm90
