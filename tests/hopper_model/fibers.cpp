// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp() takes another stack for a mistake
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
  fibers_.resize(count);
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  for (std::size_t i = 0; i < count; ++i) {
    ucontext_t& context = fibers_[i].begin;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks.at(i);
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
    fibers_[i].begun = false;
  }
}

void Fibers::enter(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(high) << 32 | low);
  self->f_();
  self->give_way();
}

void Fibers::resume(std::size_t index) {
  current_ = index;
  if (_setjmp(outside_) != 0) return;
  Fiber& fiber = fibers_[index];
  if (fiber.begun) _longjmp(fiber.inside, 1);
  fiber.begun = true;
  setcontext(&fiber.begin);
}

void Fibers::give_way() {
  if (_setjmp(fibers_[current_].inside) == 0) _longjmp(outside_, 1);
}

}  // namespace hopper_model
