// SPDX-License-Identifier: Apache-2.0
// A launch while it runs: whose turn it is, and what is under way.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "hopper_model/blocks.hpp"
#include "hopper_model/fibers.hpp"

namespace hopper_model {

class Machine {
 public:
  Machine(const Work& work, const Schedule& schedule, const std::function<void()>& kernel)
      : work_(work), schedule_(schedule), kernel_(kernel), random_(schedule.seed * 0x9e3779b97f4a7c15U + 1) {}

  std::string run();

  Block& block() { return block_; }
  Thread& thread() { return *thread_; }
  Warp& warp() { return block_.warps[static_cast<std::size_t>(thread_->index / warp_threads)]; }
  int lane() const { return thread_->index % warp_threads; }
  Barrier& barrier_at(std::uint32_t address);
  unsigned char* place(std::uint32_t address, int bytes);

  [[noreturn]] void fail(std::string what);
  template <class F>
  void meet(Meeting& meeting, int needed, const char* what, F&& last);
  void meet(Meeting& meeting, int needed, const char* what) {
    meet(meeting, needed, what, [] {});
  }
  void wait(const Barrier& barrier, int parity);
  void complete(Barrier& barrier);
  void issue(const Copy& copy);
  void multiply_groups(std::size_t count);
  bool late() const { return schedule_.late; }

 private:
  std::uint64_t random(std::uint64_t below) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % below;
  }
  void start(unsigned index);
  void give_way();
  void leave();
  void resume(Thread& thread);
  bool round();
  void doze(Warp& warp);
  bool wake();
  bool deliver();
  void deliver(const Copy& copy);
  void check_end();
  std::string stuck() const;

  Work work_;
  Schedule schedule_;
  const std::function<void()>& kernel_;
  std::uint64_t random_;
  Block block_;
  std::vector<Copy> copies_;
  Thread* thread_ = nullptr;
  std::optional<std::string> failure_;
  Fibers fibers_;
};

template <class F>
void Machine::meet(Meeting& meeting, int needed, const char* what, F&& last) {
  if (meeting.arrived > 0 && std::strcmp(meeting.what, what) != 0)
    fail(fmt::format("it waits for {}, while others wait for {}", what, meeting.what));
  meeting.what = what;
  if (++meeting.arrived == needed) {
    last();
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  thread_->meeting = &meeting;
  thread_->generation = meeting.generation;
  give_way();
}

// The launch that this thread of the host runs.
inline thread_local Machine* machine = nullptr;

}  // namespace hopper_model
