// SPDX-License-Identifier: Apache-2.0
// Tables that spare the kernels computations for every tile, phase and tap.
#pragma once

#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

// The phases. joined: the taps of the first axis are joined.
void fill_phases(ConvParams& params, bool joined);

// The offsets of taps in the order of Walk (mainloop/taps.cuh), and the main loop's variant. joint: phases along w that
// are summed at once.
void list_taps(ConvParams& params, int joint);
// Inserts each phase's numbers before its offsets, for the epilogue warpgroup; false if there are too many.
bool list_folded_taps(ConvParams& params);

// Splits work tiles by phases of the first two axes, if asked for. Returns the number of partial tiles of all work
// tiles.
std::int64_t split_work_tiles(ConvParams& params, bool splits);
// Assigns work tiles to blocks. rotates: ConvParams::rotates.
void assign_work_tiles(ConvParams& params, int blocks, bool rotates);

// The assignment and the flags, for the fallback kernel.
TileAssignment assignment_of(const ConvParams& params, bool slides);

// Distances in the output. folds: a position has one output for all phases. columns: of a band.
ResultSteps result_steps(const ConvParams& params, bool folds, int columns);

// ConvParams::missing.
int missing_everywhere(const ConvParams& params);

}  // namespace convt::core::cuda::sm90
