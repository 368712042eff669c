// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/schedule.hpp"
#include "plan/engine.hpp"

namespace convt::core::cuda::schedule {

// Engines of CUDA devices: why none of them can run there; "" when one can.
std::string why_unusable(const Location& location);

// Ways to go on behind a step that needs a whole image, where the program has one.
std::vector<Between> ways_between(const Program& program);

// A schedule as a candidate. Its slabs shrink until the workspace is as small as it was asked to be.
Candidate candidate_of(const std::string& name, Setup setup, const Request& request);

}  // namespace convt::core::cuda::schedule
