// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "plan/environment.hpp"
#include "plan/workspace.hpp"

namespace convt::core {
namespace {

// What the caller asked for or, failing that, the environment variable CONVT_ENGINE: an engine or one of its
// candidates, whose names begin with the engine's and a space.
struct Wanted {
  std::string engine, candidate;  // "": any
};
Wanted wanted_by(const PlanOptions& options, const Backends& backends) {
  const bool by_caller = !options.engine.empty();
  const std::string text = by_caller ? options.engine : std::string(environment().engine);
  const std::string engine = text.substr(0, text.find(' '));
  if (text.empty()) return {};
  std::vector<std::string_view> names;
  for (const auto get : backends.engines) names.push_back(get().name());
  if (std::find(names.begin(), names.end(), engine) == names.end())
    reject(by_caller ? "engine" : "CONVT_ENGINE", "names no engine of this build, which has {} (got '{}')",
           joined(names, ", "), text);
  return {engine, text == engine ? "" : text};
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
  const Wanted wanted = wanted_by(options, backends);
  for (const auto get : backends.engines) {
    const Engine& engine = get();
    if (!wanted.engine.empty() && engine.name() != wanted.engine) continue;
    Candidate best;
    for (Candidate& candidate :
         engine.candidates({program_, location_, options.workspace_limit, options.native_tf32 || wants_native_tf32(),
                            options.plain_ieee || wants_plain_ieee()})) {
      if (candidate.rejection.empty() && options.workspace_limit != 0 && candidate.workspace > options.workspace_limit)
        candidate.rejection = formatted("needs {} bytes of workspace, over the limit of {}", candidate.workspace,
                                        options.workspace_limit);
      if (candidate.rejection.empty() && !wanted.candidate.empty() && candidate.name != wanted.candidate)
        candidate.rejection = formatted("'{}' is asked for", wanted.candidate);
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
