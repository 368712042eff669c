// SPDX-License-Identifier: Apache-2.0
#include "cuda/sums/engine.hpp"

#include "cuda/schedule/candidate.hpp"
#include "cuda/sums/convolver.hpp"
#include "plan/sums.hpp"

namespace convt::core {
namespace {

class SumsEngine final : public Engine {
 public:
  std::string_view name() const override { return "cuda-sums"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    none.rejection = cuda::schedule::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    const SpaceSum sum = sum_over_space(*request.program);
    none.rejection = sum.rejection;
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    const auto convolver = cuda::sums::make_convolver(sum.program, sum.factor, device);
    return cuda::schedule::candidates_of(none.name, {sum.program}, convolver, device, request);
  }
};

}  // namespace

const Engine& cuda_sums_engine() {
  static constinit const SumsEngine engine;
  return engine;
}

}  // namespace convt::core
