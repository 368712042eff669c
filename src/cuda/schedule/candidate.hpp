// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/schedule/schedule.hpp"
#include "plan/engine.hpp"

namespace convt::core::cuda::schedule {

// Why no CUDA engine can run at a location; "" if one can.
std::string why_unusable(const Location& location);

// The programs that give the request's result: its own and, if the planner changed that one's kernel, the one with the
// kernel as it was asked. A changed kernel has fewer products, but not always the faster kernels.
struct Variant {
  std::shared_ptr<const Program> program;
  bool keeps_kernel = false;  // though the planner would change it
};
std::vector<Variant> variants_of(const Request& request);

// Plans the schedules of a variant and makes them candidates, one for each way between passes. Slabs shrink until the
// workspace respects the request's limit.
std::vector<Candidate> candidates_of(const std::string& name, const Variant& variant,
                                     const std::shared_ptr<const Convolver>& convolver, const DeviceProperties& device,
                                     const Request& request);

}  // namespace convt::core::cuda::schedule
