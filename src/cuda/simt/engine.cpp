// SPDX-License-Identifier: Apache-2.0
#include "cuda/simt/engine.hpp"

#include <algorithm>
#include <iterator>

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
    std::vector<Candidate> all;
    for (const auto& variant : cuda::schedule::variants_of(request))
      std::ranges::move(cuda::schedule::candidates_of(
                            none.name, variant, cuda::simt::make_convolver(variant.program, device), device, request),
                        std::back_inserter(all));
    return all;
  }
};

}  // namespace

const Engine& cuda_generic_engine() {
  static constinit const GenericEngine engine;
  return engine;
}

}  // namespace convt::core
