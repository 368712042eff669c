// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/fibers.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace hopper_model {
namespace {

constexpr std::size_t stack_bytes = 128 << 10, page = 4096;

// Stacks are kept between launches, each with a page below it that nobody may touch.
class Stacks {
 public:
  char* at(std::size_t index) {
    while (stacks_.size() <= index) {
      void* const stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (stack == MAP_FAILED) throw std::bad_alloc();
      mprotect(stack, page, PROT_NONE);
      stacks_.push_back(static_cast<char*>(stack));
    }
    return stacks_[index];
  }
  ~Stacks() {
    for (char* stack : stacks_) munmap(stack, stack_bytes);
  }

 private:
  std::vector<char*> stacks_;
};
thread_local Stacks stacks;

}  // namespace

void Fibers::start(std::size_t count, std::function<void()> f) {
  f_ = std::move(f);
  contexts_.resize(count);
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  for (std::size_t i = 0; i < count; ++i) {
    getcontext(&contexts_[i]);
    contexts_[i].uc_stack.ss_sp = stacks.at(i);
    contexts_[i].uc_stack.ss_size = stack_bytes;
    contexts_[i].uc_link = &outside_;
    makecontext(&contexts_[i], reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
  }
}

void Fibers::enter(unsigned low, unsigned high) {
  const std::uintptr_t self = static_cast<std::uintptr_t>(high) << 32 | low;
  reinterpret_cast<Fibers*>(self)->f_();
}

void Fibers::resume(std::size_t index) {
  current_ = index;
  swapcontext(&outside_, &contexts_[index]);
}

void Fibers::give_way() { swapcontext(&contexts_[current_], &outside_); }

}  // namespace hopper_model
