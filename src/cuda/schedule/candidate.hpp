// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/schedule.hpp"
#include "plan/engine.hpp"

namespace convt::core::cuda::schedule {

// Why no CUDA engine can run at a location; "" if one can.
std::string why_unusable(const Location& location);

// The ways to pass on values between passes: to store them, and, if the program has a norm over space, to recompute
// them.
std::vector<Between> ways_between(const Program& program);

// Plans a schedule and makes it a candidate. Slabs shrink until the workspace respects the request's limit.
Candidate candidate_of(const std::string& name, Setup setup, const Request& request);

}  // namespace convt::core::cuda::schedule
