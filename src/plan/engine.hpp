// SPDX-License-Identifier: Apache-2.0
// The interface every engine implements. Engines are asked in order of priority. An engine offers candidates for a
// problem; each is accepted with a cost or rejected with a reason; the planner builds the cheapest accepted candidate
// of the first engine that has one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/program.hpp"
#include "problem/call.hpp"

namespace convt::core {

// What a plan runs. Made for one program and one device.
class Executable {
 public:
  virtual ~Executable() = default;
  // Takes a copy of the kernel, arranged as it likes; from then on Call::kernel is ignored.
  virtual void pack_kernel(const void* kernel, void* stream) = 0;
  // The call's pointers were checked and its output is not empty. On the CPU its workspace is there, of the candidate's
  // size; on a device it may be null, and then the engine provides it. Called from several threads at once.
  virtual void execute(const Call& call) const = 0;
};

struct Candidate {
  std::string name;                  // "reference", or an engine's name and its choice, "cpu avx512"
  std::string rejection;             // why it cannot take the problem; "" when it can
  std::vector<std::string> details;  // how it would run, a line each, for explain
  double seconds = 0;                // predicted time, for the choice
  std::size_t workspace = 0;
  std::function<std::unique_ptr<Executable>()> build;
  std::shared_ptr<const Program> program{};  // what it runs, for explain; null: the request's
};

struct Request {
  std::shared_ptr<const Program> program;  // its steps, or the descriptor that was asked: they give the same
  Location location;
  std::size_t workspace_limit = 0;  // bytes; 0: none. A candidate over it is rejected, whatever its engine says
  bool native_tf32 = false;         // no f16 in place of tf32
  bool plain_ieee = false;          // float32 by plain multiply-adds alone
};

// Engines are constants of the library, there before any of its code runs: nothing guards their making, which a fork()
// could cut.
class Engine {
 public:
  virtual std::string_view name() const = 0;
  virtual std::vector<Candidate> candidates(const Request& request) const = 0;

 protected:
  ~Engine() = default;
};

}  // namespace convt::core
