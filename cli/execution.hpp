// SPDX-License-Identifier: Apache-2.0
// One execution of a plan, watched: does it write all of its output and nothing else?
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "convt/convt.hpp"
#include "tensor.hpp"

namespace convt::cli {

struct ExecutionOptions {
  bool pack_kernel = false;
  bool own_workspace = false;  // supplied here, exactly as large as the plan asks, and watched
  std::size_t guard = 64;      // elements before and after the output; an odd number leaves it aligned to elements only
};

// Refers to the plan and the inputs, which must outlive it. The output is poison, a NaN with a payload that no
// arithmetic makes, until execute().
class Execution {
 public:
  Execution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  void execute();

  // What is wrong with the memory after execute(); "" when nothing is.
  std::string defect() const;

  // The first `count` elements in memory order, or all of them.
  std::vector<double> output(std::size_t count = std::numeric_limits<std::size_t>::max()) const;

 private:
  const Plan& plan_;
  const Inputs& inputs_;
  ExecutionOptions options_;
  Tensor memory_;  // guard, output, guard
  std::vector<std::byte> workspace_memory_;
  std::span<std::byte> workspace_;  // of workspace_memory_, with guards on both sides
};

// The plan's output, in memory order. Throws convt::Error of status internal_error for a defect.
std::vector<double> execute(Plan& plan, const Inputs& inputs);

}  // namespace convt::cli
