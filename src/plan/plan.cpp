// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "plan/environment.hpp"
#include "plan/workspace.hpp"

namespace convt::core {
namespace {

// The engine asked for by the caller or, failing that, by the environment variable CONVT_ENGINE; "" when neither did.
std::string wanted_engine(const PlanOptions& options, const Backends& backends) {
  const bool by_caller = !options.engine.empty();
  std::string wanted = by_caller ? options.engine : std::string(environment().engine);
  if (wanted.empty()) return wanted;
  std::vector<std::string_view> names;
  for (const auto engine : backends.engines) names.push_back(engine().name());
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    reject(by_caller ? "engine" : "CONVT_ENGINE", "names no engine of this build, which has {} (got '{}')",
           joined(names, ", "), wanted);
  return wanted;
}

bool wants_native_tf32() {
  const std::string_view wanted = environment().tf32;
  if (!wanted.empty() && wanted != "any" && wanted != "native")
    reject("CONVT_TF32", "must be 'any' or 'native' (got '{}')", wanted);
  return wanted == "native";
}
bool wants_plain_ieee() {
  const std::string_view wanted = environment().ieee;
  if (!wanted.empty() && wanted != "any" && wanted != "plain")
    reject("CONVT_IEEE", "must be 'any' or 'plain' (got '{}')", wanted);
  return wanted == "plain";
}

}  // namespace

Plan::Plan(Descriptor descriptor, const PlanOptions& options, const Backends& backends)
    : program_(std::make_shared<const Program>(rewrite(std::make_shared<const Descriptor>(std::move(descriptor))))),
      location_(options.location),
      locate_(backends.locate) {
  const std::string wanted = wanted_engine(options, backends);
  for (const auto get : backends.engines) {
    const Engine& engine = get();
    if (!wanted.empty() && engine.name() != wanted) continue;
    Candidate best;
    for (Candidate& candidate :
         engine.candidates({program_, location_, options.workspace_limit, options.native_tf32 || wants_native_tf32(),
                            options.plain_ieee || wants_plain_ieee()})) {
      if (candidate.rejection.empty() && options.workspace_limit != 0 && candidate.workspace > options.workspace_limit)
        candidate.rejection = formatted("needs {} bytes of workspace, over the limit of {}", candidate.workspace,
                                        options.workspace_limit);
      verdicts_.push_back({candidate.name, candidate.rejection, candidate.seconds});
      if (candidate.rejection.empty() && (!best.build || candidate.seconds < best.seconds)) best = std::move(candidate);
    }
    if (!best.build) continue;
    engine_ = engine.name();
    choice_ = best.name;
    details_ = std::move(best.details);
    workspace_ = best.workspace;
    seconds_ = best.seconds;
    executable_ = best.build();
    if (best.program != nullptr) program_ = std::move(best.program);
    return;
  }
  std::string reasons;
  for (const Verdict& verdict : verdicts_) reasons += formatted("; {}: {}", verdict.candidate, verdict.reason);
  const bool lacks_cuda = location_.device == CONVT_DEVICE_CUDA && !backends.has_cuda;
  throw Error(CONVT_UNSUPPORTED, formatted("no engine can run this in memory of {}{}{}", print(location_),
                                           lacks_cuda ? "; this build has no CUDA" : "", reasons));
}

void Plan::pack_kernel(const void* kernel, void* stream) {
  check_kernel(descriptor(), kernel, location_, locate_);
  executable_->pack_kernel(kernel, stream);
  packed_ = true;
}

void Plan::execute(const Call& call) const {
  check_call(descriptor(), call, {location_, workspace_, packed_}, locate_);
  if (descriptor().output.count() == 0) return;
  if (location_.device == CONVT_DEVICE_CPU && call.workspace == nullptr && workspace_ != 0) {
    const Workspace workspace(workspace_);
    Call with_workspace = call;
    with_workspace.workspace = workspace.data();
    with_workspace.workspace_size = workspace_;
    executable_->execute(with_workspace);
  } else {
    executable_->execute(call);
  }
}

}  // namespace convt::core
