// SPDX-License-Identifier: Apache-2.0
// Long sums are sums of shorter ones, in order: their rounding errors grow with the length of each, not of all. The
// cuts depend on the sum alone, so that its bits are the same however work is cut into tiles.
#pragma once

#include <vector>

#include "plan/phases.hpp"

namespace convt::core::cpu {

// Of channels*taps products, by channel, then tap. A part has whole channels where these have few taps; otherwise it is
// within one.
std::vector<Interval> sum_parts(std::int64_t channels, std::int64_t taps);

}  // namespace convt::core::cpu
