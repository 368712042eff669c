// SPDX-License-Identifier: Apache-2.0
#include "cuda/sums/engine.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/schedule/candidate.hpp"
#include "cuda/sums/convolver.hpp"
#include "epilogue/text.hpp"
#include "plan/algebra.hpp"
#include "plan/passes.hpp"

namespace convt::core {
namespace {

// A program that folds the convolution's result first: the steps before the fold then see one pixel. Null if the first
// fold is not linear, or follows steps that do not commute with it.
std::shared_ptr<const Program> reduce(const Program& asked, double& factor) {
  const Pass first = passes_of(asked, Between::store, false).front();
  if (first.sink != Pass::Sink::fold) return nullptr;
  auto program = std::make_shared<Program>(asked);
  auto& steps = program->steps;
  const Op& fold = std::get<Op>(steps[first.end].what);
  const auto count = static_cast<double>(volume(asked.conv.space));
  const auto linear = linear_pool(fold, count);
  if (!linear) return nullptr;
  factor = *linear;
  program->conv.space = {1, 1, 1};
  for (std::size_t i = 0; i < first.end; ++i) {
    const Affine* const affine = std::get_if<Affine>(&steps[i].what);
    // A shift commutes with an average only: a sum has it once for each pixel.
    if (affine == nullptr || (factor != 1 / count && planned(*affine).b != 0)) return nullptr;
    steps[i].in.space = steps[i].out.space = {1, 1, 1};
  }
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(first.end));
  return program;
}

class SumsEngine final : public Engine {
 public:
  std::string_view name() const override { return "cuda-sums"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    none.rejection = cuda::schedule::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    double factor = 1;
    const auto program = reduce(*request.program, factor);
    if (program == nullptr) {
      none.rejection = "takes sums and averages over all of space behind linear steps";
      return {none};
    }
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    const auto convolver = cuda::sums::make_convolver(program, factor, device);
    return cuda::schedule::candidates_of(none.name, {program}, convolver, device, request);
  }
};

}  // namespace

const Engine& cuda_sums_engine() {
  static constinit const SumsEngine engine;
  return engine;
}

}  // namespace convt::core
