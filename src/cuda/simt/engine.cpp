// SPDX-License-Identifier: Apache-2.0
#include "cuda/simt/engine.hpp"

#include "cuda/schedule/candidate.hpp"
#include "cuda/simt/convolver.hpp"

namespace convt::core {
namespace {

class GenericEngine final : public Engine {
 public:
  std::string_view name() const override { return "cuda-generic"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    none.rejection = cuda::schedule::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    const auto convolver = cuda::simt::make_convolver(request.program, device);
    std::vector<Candidate> all;
    for (const Between between : cuda::schedule::ways_between(*request.program))
      all.push_back(cuda::schedule::candidate_of(none.name, {request.program, convolver, device, between, 0}, request));
    return all;
  }
};

}  // namespace

const Engine& cuda_generic_engine() {
  static constinit const GenericEngine engine;
  return engine;
}

}  // namespace convt::core
