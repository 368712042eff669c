// SPDX-License-Identifier: Apache-2.0
// A plan: a checked problem, the candidates that were considered for it, and the executable that was built.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/lazy.hpp"
#include "plan/engine.hpp"

namespace convt::core {

// The engines in order of priority, and how to tell where a pointer is.
struct Backends {
  std::span<const Engine& (*const)()> engines;
  Locate locate;
  bool has_cuda;
};

struct PlanOptions {
  Location location;
  std::string engine;               // "": the first that accepts
  std::size_t workspace_limit = 0;  // bytes; 0: none
  bool native_tf32 = false;         // no f16 in place of tf32
  bool plain_ieee = false;          // float32 by plain multiply-adds alone
};

class Plan {
 public:
  // Throws Error(unsupported), with every candidate's reason, when none accepts.
  Plan(Descriptor descriptor, const PlanOptions& options, const Backends& backends);

  const Descriptor& descriptor() const { return *program_->asked; }
  const Program& program() const { return *program_; }  // that the choice runs
  const Location& location() const { return location_; }
  const std::string& engine() const { return engine_; }
  const std::string& choice() const { return choice_; }
  double predicted_seconds() const { return seconds_; }  // of the choice
  std::size_t workspace_size() const { return workspace_; }
  struct Verdict {
    std::string candidate, reason;  // reason: "" when it accepted
    double seconds;
  };
  const std::vector<std::string>& details() const { return details_; }  // of the choice
  const std::vector<Verdict>& verdicts() const { return verdicts_; }

  void pack_kernel(const void* kernel, void* stream);
  void execute(const Call& call) const;

  // Built at the first call; belongs to the plan.
  const std::string& explain() const;

 private:
  std::shared_ptr<const Program> program_;
  Location location_;
  Locate locate_;
  std::string engine_, choice_;
  std::size_t workspace_ = 0;
  double seconds_ = 0;
  std::vector<Verdict> verdicts_;
  std::vector<std::string> details_;
  std::unique_ptr<Executable> executable_;
  bool packed_ = false;
  Lazy<std::string> explanation_;
};

}  // namespace convt::core
