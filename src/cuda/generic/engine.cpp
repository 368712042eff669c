// SPDX-License-Identifier: Apache-2.0
#include "cuda/generic/engine.hpp"

#include "cuda/generic/candidate.hpp"

namespace convt::core {
namespace {

class GenericEngine final : public Engine {
 public:
  std::string_view name() const override { return "cuda-generic"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    none.rejection = cuda::generic::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    const auto convolver = cuda::generic::make_convolver(request.program, device);
    std::vector<Candidate> all;
    for (const Between between : cuda::generic::ways_between(*request.program))
      all.push_back(cuda::generic::candidate_of(none.name, {request.program, convolver, device, between, 0}, request));
    return all;
  }
};

}  // namespace

const Engine& cuda_generic_engine() {
  static constinit const GenericEngine engine;
  return engine;
}

}  // namespace convt::core
