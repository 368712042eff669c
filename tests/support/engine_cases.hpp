// SPDX-License-Identifier: Apache-2.0
// Cases that lead an engine through its ways, for tests of any engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convt::testing {

struct DrawnCase {
  std::string text;
  std::string chain;  // one of chains()
};

// Chains that ask for different things of an engine.
const std::vector<std::string>& chains();

// A legal case, of other sizes than those of `convt verify`: rows of up to 150, up to 70 channels.
DrawnCase draw_case(std::uint64_t seed);

// Geometries, each awkward in its own way.
const std::vector<std::string>& shape_cases();

// NaN and Inf, which some seeds put into the input, reach the outputs that they have a tap to, and no others.
const std::vector<std::string>& infinity_cases();

// Images too large for one tile, so that steps that need a whole image take passes of their own.
const std::vector<std::string>& whole_image_cases();

}  // namespace convt::testing
