// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace hopper_model {

// Many stacks of one thread of the host.
class Fibers {
 public:
  // All of them begin with f() when they are resumed first. Earlier ones are forgotten.
  void start(std::size_t count, std::function<void()> f);
  // Until the fiber gives way or ends.
  void resume(std::size_t index);
  // By a fiber.
  void give_way();

 private:
  static void enter(unsigned low, unsigned high);

  std::function<void()> f_;
  std::vector<ucontext_t> contexts_;
  ucontext_t outside_{};
  std::size_t current_ = 0;
};

}  // namespace hopper_model
