// SPDX-License-Identifier: Apache-2.0
#include "cuda/schedule/candidate.hpp"

#include <algorithm>

#include "cuda/schedule/executable.hpp"

namespace convt::core::cuda::schedule {
namespace {

// Values between stages take up to half of the L2 cache; inputs and outputs need the rest.
constexpr std::int64_t l2_share = 2;
constexpr std::int64_t least_slab = 1 << 20;
// Slabs that exceed the cache take up to a 256th of the memory. So the buffers of many streams fit into what Buffers
// keeps.
constexpr std::int64_t memory_share = 256;
// The smallest slab for a workspace limit: planning more slabs would take too long.
constexpr std::int64_t smallest_slab = 4096;

// The ways to pass on values between passes: to store them, and, if the program has a norm over space, to recompute
// them.
std::vector<Between> ways_between(const Program& program) {
  const auto passes = passes_of(program, Between::store, false);
  if (std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.stores; }))
    return {Between::store, Between::recompute};
  return {Between::store};
}

}  // namespace

std::string why_unusable(const Location& location) {
  if (location.device != CONVT_DEVICE_CUDA) return "runs on CUDA devices only";
  return properties(location.index).unusable;
}

std::vector<Variant> variants_of(const Request& request) {
  std::vector<Variant> all{{request.program}};
  if (request.program->kernel_change.any())
    all.push_back({std::make_shared<const Program>(rewrite(request.program->asked, {true, true, ""})), true});
  return all;
}

namespace {

Candidate candidate_of(const std::string& name, Setup setup, const Request& request) {
  setup.slab_bytes = std::max(static_cast<std::int64_t>(setup.device.l2_bytes) / l2_share, least_slab);
  setup.most_bytes = std::max(static_cast<std::int64_t>(setup.device.memory_bytes) / memory_share, setup.slab_bytes);
  auto schedule = std::make_shared<Schedule>(setup);
  while (request.workspace_limit != 0 && schedule->workspace > request.workspace_limit &&
         setup.slab_bytes > smallest_slab) {
    if (setup.most_bytes == setup.slab_bytes) setup.slab_bytes /= 4;
    setup.most_bytes = setup.slab_bytes;
    schedule = std::make_shared<Schedule>(setup);
  }
  Candidate result;
  result.name = name;
  result.rejection = schedule->rejection;
  if (!result.rejection.empty()) return result;
  result.details = schedule->explain();
  result.seconds = schedule->predicted.seconds;
  result.workspace = schedule->workspace;
  result.build = [schedule, device = request.location.index] { return make_executable(schedule, device); };
  return result;
}

}  // namespace

std::vector<Candidate> candidates_of(const std::string& name, const Variant& variant,
                                     const std::shared_ptr<const Convolver>& convolver, const DeviceProperties& device,
                                     const Request& request) {
  const std::vector<Between> ways = ways_between(*variant.program);
  std::vector<Candidate> all;
  for (const Between between : ways) {
    std::string own = name + (variant.keeps_kernel ? " asked-kernel" : "");
    if (ways.size() > 1) own += between == Between::store ? " store" : " recompute";
    all.push_back(candidate_of(own, {variant.program, convolver, device, between}, request));
    if (variant.keeps_kernel) all.back().program = variant.program;
    if (variant.keeps_kernel && all.back().rejection.empty())
      all.back().details.push_back("the kernel stays as it is: no sum moves into it");
  }
  return all;
}

}  // namespace convt::core::cuda::schedule
