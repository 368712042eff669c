// SPDX-License-Identifier: Apache-2.0
// Tables that spare the kernels computations for every tile, phase and tap.
#pragma once

#include "cuda/sm90/host/phase_window.hpp"

namespace convt::core::cuda::sm90 {

// The phases of a window. leads: the phases of the box's first output. joined: the taps of the first axis are joined.
void fill_phases(const PhaseWindow& window, const std::array<int, 3>& leads, bool joined, ConvParams& params);

// The offsets of taps in the order of Walk (mainloop/taps.cuh), and the main loop's variant. joint: phases along w that
// are summed at once.
void list_taps(ConvParams& params, int joint);
// Inserts each phase's numbers before its offsets, for the epilogue warpgroup; false if there are too many.
bool list_folded_taps(ConvParams& params);

// Phases along w that one block computes where work tiles are split: a row of them, as their outputs share sectors;
// two, if rows were fewer than multiprocessors. all: phases of all work tiles.
inline int phases_together(int row, double all, int multiprocessors) {
  return row % 2 == 0 && all < static_cast<double>(row) * multiprocessors ? 2 : row;
}
// Splits work tiles by phases, if asked for. Returns the number of partial tiles of all work tiles.
std::int64_t split_work_tiles(ConvParams& params, bool splits, int multiprocessors);
// Assigns work tiles to blocks. rotates: ConvParams::rotates.
void assign_work_tiles(ConvParams& params, int blocks, bool rotates);

// The assignment and the flags, for the fallback kernel.
TileAssignment assignment_of(const ConvParams& params, bool slides);

// Distances in the output. strides: from one position to the next, in outputs. columns: of a band.
ResultSteps result_steps(const ConvParams& params, const std::array<int, 3>& strides, int columns);

// ConvParams::missing.
int missing_everywhere(const ConvParams& params);

}  // namespace convt::core::cuda::sm90
