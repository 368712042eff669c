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
#include "watched_memory.hpp"

namespace convt::cli {

struct ExecutionOptions {
  bool pack_kernel = false;    // and then overwrite it, since the plan has a copy
  bool own_workspace = false;  // supplied here, exactly as large as the plan asks
  bool aligned = true;         // false: every tensor is aligned to its elements only
  Place place = {};            // the plan's
};

// Refers to the plan and the inputs, which must outlive it. The output is poison until the plan is executed.
class Execution {
 public:
  Execution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Other inputs at the same addresses, and a poisoned output. A packed kernel stays what it was.
  void load(const Inputs& inputs);

  void execute();  // and waits for it
  void launch();   // as the library has it: on a GPU the result comes later

  // What is wrong with the memory after it was executed; "" when nothing is.
  std::string defect();

  // The first `count` elements in memory order, or all of them.
  std::vector<double> output(std::size_t count = std::numeric_limits<std::size_t>::max());
  // These of them, after defect() was asked.
  std::vector<double> output(std::span<const std::size_t> elements);

 private:
  std::size_t output_block() const { return 2 + inputs_->operands.size(); }
  std::size_t workspace_block() const { return output_block() + 1; }
  const TensorInfo& info(std::size_t block) const;  // of a tensor's block
  // A block's elements, one behind the other.
  std::vector<std::byte> elements(std::size_t block);
  // What stands in a block before the output; no bytes where it is poison.
  std::span<const std::byte> loaded(std::size_t block) const;

  Plan& plan_;
  const Inputs* inputs_;
  ExecutionOptions options_;
  bool packed_ = false;
  WatchedMemory memory_;  // input, kernel, operands, output, and perhaps a workspace
};

// The plan's output, in memory order. Throws convt::Error of status internal_error for a defect.
std::vector<double> execute(Plan& plan, const Inputs& inputs);

}  // namespace convt::cli
