// SPDX-License-Identifier: Apache-2.0
// Tables, so that kernels need not compute them for every tile, phase and tap.
#pragma once

#include "cuda/sm90/host/phase_window.hpp"

namespace convt::core::cuda::sm90 {

// Fills ConvParams::phases for a window. leads: the phases of the box's first output. joined: the taps of the first
// axis are joined.
void fill_phases(const PhaseWindow& window, const std::array<int, 3>& leads, bool joined, ConvParams& params);

// Lists the offsets of taps in the order of Walk (mainloop/taps.cuh), and chooses the main loop's variant. joint:
// phases along w that are summed at once.
void list_taps(ConvParams& params, int joint);
// Inserts each phase's taps and weights before its offsets, for the epilogue warpgroup. Returns false if they do not
// fit.
bool list_folded_taps(ConvParams& params);

// The phases along w of a partial tile: a whole row, as the outputs of a row share sectors; but two, if the rows of
// phases are fewer than multiprocessors. all: phases of all work tiles.
inline int phases_together(int row, double all, int multiprocessors) {
  return row % 2 == 0 && all < static_cast<double>(row) * multiprocessors ? 2 : row;
}
// Splits work tiles by phases if `splits`. Returns the number of partial tiles of all work tiles.
std::int64_t split_work_tiles(ConvParams& params, bool splits, int multiprocessors);
// Assigns work tiles to blocks. rotates: ConvParams::rotates.
void assign_work_tiles(ConvParams& params, int blocks, bool rotates);

// The assignment of work tiles and the flags of blocks, for the fallback kernel.
TileAssignment assignment_of(const ConvParams& params, bool slides);

// Distances in the output. strides: from one position to the next, in outputs. columns: of a band.
ResultSteps result_steps(const ConvParams& params, const std::array<int, 3>& strides, int columns);

// ConvParams::missing.
int missing_everywhere(const ConvParams& params);

}  // namespace convt::core::cuda::sm90
