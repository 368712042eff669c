// SPDX-License-Identifier: Apache-2.0
// What the Hopper kernels would have to compute for every tile, class and tap, found once by the host.
#pragma once

#include "cuda/sm90/params.hpp"

namespace convt::core::cuda::sm90 {

// The classes of taps; joined: the taps of the first axis are.
void place_classes(ConvParams& params, bool joined);

// The places of taps, in the order of Walk (products.cuh), and the route, where it is a short one. So many phases along
// w are summed at once.
void place_taps(ConvParams& params, int joint);
// Before each class's places, its numbers, as Way::pooled takes them; false if there are too many.
bool place_pooled(ConvParams& params);

// How items can be cut into shares: by phases of the first two axes, if that is asked for. So many shares are all
// items.
std::int64_t cut_items(ConvParams& params, bool cuts);
// What each of so many blocks has of all items. turns: as ConvParams has it.
void place_items(ConvParams& params, int blocks, bool turns);

// A position has an output for each phase, or, where a pool folds them, one for all. columns: of a band.
ResultSteps result_steps(const ConvParams& params, bool folds, int columns);

// ConvParams::missing.
int missing_everywhere(const ConvParams& params);

}  // namespace convt::core::cuda::sm90
