// SPDX-License-Identifier: Apache-2.0
#include "cuda/generic/engine.hpp"

#include <algorithm>

#include "cuda/generic/executable.hpp"

namespace convt::core {
namespace {

// Values between stages take half of the L2 cache, beside inputs and outputs.
constexpr std::int64_t l2_share = 2;
constexpr std::int64_t least_slab = 1 << 20;

class GenericEngine : public Engine {
 public:
  std::string_view name() const override { return "cuda-generic"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    if (request.location.device != CONVT_DEVICE_CUDA) {
      none.rejection = "runs on CUDA devices only";
      return {none};
    }
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    none.rejection = device.unusable;
    if (!none.rejection.empty()) return {none};
    cuda::generic::Setup setup{request.program, device, Between::store, 0};
    std::vector<Candidate> all{candidate(setup, request)};
    const auto passes = passes_of(*request.program, Between::store, false);
    if (std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.stores; })) {
      setup.between = Between::recompute;
      all.push_back(candidate(setup, request));
    }
    return all;
  }

 private:
  // Slabs shrink until the workspace is as small as it was asked to be.
  Candidate candidate(cuda::generic::Setup setup, const Request& request) const {
    setup.slab_bytes = std::max(static_cast<std::int64_t>(setup.device.l2_bytes) / l2_share, least_slab);
    auto schedule = std::make_shared<cuda::generic::Schedule>(setup);
    while (request.workspace_limit != 0 && schedule->workspace > request.workspace_limit && setup.slab_bytes > 1) {
      setup.slab_bytes /= 4;
      schedule = std::make_shared<cuda::generic::Schedule>(setup);
    }
    Candidate result;
    result.name = std::string(name()) + (setup.between == Between::store ? "" : " recompute");
    result.rejection = schedule->rejection;
    if (!result.rejection.empty()) return result;
    result.details = schedule->explain();
    result.seconds = schedule->seconds;
    result.workspace = schedule->workspace;
    result.build = [schedule, device = request.location.index] {
      return cuda::generic::make_executable(schedule, device);
    };
    return result;
  }
};

}  // namespace

const Engine& cuda_generic_engine() {
  static const GenericEngine engine;
  return engine;
}

}  // namespace convt::core
