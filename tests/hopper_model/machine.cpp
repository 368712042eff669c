// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/machine.hpp"

#include <cstring>

#include "hopper_model/scheduler.hpp"

namespace hopper_model {
namespace {

thread_local Schedule schedule_to_come;

}  // namespace

void set_schedule(const Schedule& schedule) { schedule_to_come = schedule; }

std::string run(const Work& work, const std::function<void()>& kernel) {
  return Machine(work, schedule_to_come, kernel).run();
}

unsigned char* dynamic_memory() { return machine->block().memory + dynamic_begin; }

std::uint64_t* static_words(int count) {
  Block& block = machine->block();
  if (block.static_used == 0) block.static_used = count * 8;
  if (block.static_used != count * 8) machine->fail("the model knows one array of static shared memory");
  if (block.static_used + static_cast<int>(block.end - dynamic_begin) > static_cast<int>(most_shared))
    machine->fail("static and dynamic shared memory are too large together");
  return reinterpret_cast<std::uint64_t*>(block.memory + static_begin);
}

std::uint32_t address_of(const void* pointer) {
  const Block& block = machine->block();
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - block.memory;
  if (offset < static_begin || offset > block.end) machine->fail("a pointer is not into shared memory");
  return static_cast<std::uint32_t>(offset);
}

void sync_block() { machine->meet(machine->block().all, machine->block().live, "all threads"); }
bool any_of_block(bool own) {
  Block& block = machine->block();
  block.vote = false;
  sync_block();
  if (own) block.vote = true;
  sync_block();
  const bool any = block.vote;
  sync_block();
  return any;
}
void sync_named(int barrier, int threads) {
  machine->meet(machine->block().named[barrier], threads, "a named barrier");
}
void sync_warp() { machine->meet(machine->warp().meeting, warp_threads, "its warp"); }

std::uint64_t exchange(std::uint64_t own, int lane) {
  Warp& warp = machine->warp();
  std::uint64_t(&brought)[warp_threads] = warp.brought[warp.meeting.generation % 2];
  brought[machine->lane()] = own;
  machine->meet(warp.meeting, warp_threads, "a shuffle");
  return brought[lane];
}

void init_barrier(std::uint32_t address, int arrivals) {
  Block& block = machine->block();
  machine->place(address, 8);
  if (address % 8 != 0 || arrivals <= 0) machine->fail("a barrier of no arrivals, or at an odd address");
  const auto number = static_cast<int>(block.barriers.size());
  if (!block.barriers.insert({address, {arrivals, arrivals, 0, 0, number}}).second)
    machine->fail("a barrier is made twice");
}

void arrive(std::uint32_t address, std::int64_t expected_bytes) {
  Barrier& barrier = machine->barrier_at(address);
  if (barrier.pending == 0)
    machine->fail(fmt::format("one arrival too many at barrier {}, in phase {}", barrier.number, barrier.phase));
  barrier.bytes += expected_bytes;
  --barrier.pending;
  machine->complete(barrier);
}

void wait(std::uint32_t address, int parity) { machine->wait(machine->barrier_at(address), parity); }

std::uint32_t load_word(const void* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % 4 != 0) machine->fail("a word's address is no multiple of 4");
  std::uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  if (bytes <= 0 || bytes % 16 != 0 || to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    machine->fail("a bulk copy's size or addresses are no multiples of 16");
  machine->issue({to, &machine->barrier_at(barrier), from, bytes});
}

void fence_async() { machine->block().fenced = true; }

void multiply(Element element, int columns, float* sums, std::uint64_t a, std::uint64_t b, bool add) {
  Thread& thread = machine->thread();
  thread.products.push_back({element, columns, a, b, add});
  thread.sums.push_back(sums);
}

void commit() {
  Thread& thread = machine->thread();
  thread.groups.push_back(thread.products.size() - thread.committed);
  thread.committed = thread.products.size();
  if (!machine->late())
    machine->meet(machine->warp().meeting, warp_threads, "its warp, to multiply",
                  [&] { machine->multiply_groups(machine->thread().groups.size()); });
}

void wait_products(int pending) {
  machine->meet(machine->warp().meeting, warp_threads, "its warp, to wait for products", [&] {
    const auto& groups = machine->thread().groups;
    const auto left = static_cast<std::size_t>(pending);
    if (groups.size() > left) machine->multiply_groups(groups.size() - left);
  });
}

}  // namespace hopper_model
