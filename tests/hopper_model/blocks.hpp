// SPDX-License-Identifier: Apache-2.0
// What a block of threads is made of.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "hopper_model/products.hpp"

namespace hopper_model {

// Addresses: the first KiB is the system's, as on the hardware; then static memory, then what the launch asks for, not
// at a round address.
inline constexpr std::uint32_t static_begin = 1024, dynamic_begin = 1024 + 4096 + 16, memory_bytes = 1 << 18;
inline constexpr int named_barriers = 16;

// Threads wait until enough have come.
struct Meeting {
  int arrived = 0;
  const char* what = "";  // its last one
  unsigned generation = 0;
};

struct Barrier {
  int expected = 0, pending = 0;
  std::int64_t bytes = 0;  // that are still to come
  unsigned phase = 0;
  int number = 0;  // in the order of their making
};

struct Thread {
  int index = 0;
  bool done = false;
  // What it waits for, if anything.
  const Meeting* meeting = nullptr;
  unsigned generation = 0;
  const Barrier* barrier = nullptr;
  int parity = 0;
  // Products since the last that were done, and how many of them each group has.
  std::vector<Product> products;
  std::vector<float*> sums;
  std::vector<std::size_t> groups;
  std::size_t committed = 0;

  bool ready() const {
    if (done) return false;
    if (meeting != nullptr) return meeting->generation != generation;
    return barrier == nullptr || static_cast<int>(barrier->phase & 1) != parity;
  }
};

struct Warp {
  Meeting meeting;
  std::uint64_t brought[2][warp_threads] = {};
  std::uint64_t history = 0;  // of its products
  std::uint32_t asleep = 0;   // a bit for each lane

  bool sleeps(int lane) const { return (asleep >> lane & 1U) != 0; }
};

struct Block {
  unsigned index = 0;
  int live = 0, static_used = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned char> storage, async;  // as threads see it, and as matrix instructions do
  unsigned char* memory = nullptr;
  std::uint32_t end = 0;
  Meeting all, named[named_barriers];
  bool vote = false;
  std::map<std::uint32_t, Barrier> barriers;
  bool fenced = false;  // some lanes of the warp whose turn it is

  // What was stored before is seen by matrix instructions.
  void publish() {
    if (!std::exchange(fenced, false)) return;
    std::memcpy(async.data() + dynamic_begin, memory + dynamic_begin, end - dynamic_begin);
  }
  Thread* lane(std::size_t warp, int lane) {
    const std::size_t index = warp * warp_threads + static_cast<std::size_t>(lane);
    return index < threads.size() ? &threads[index] : nullptr;
  }
};

struct Copy {
  std::uint32_t to;
  Barrier* barrier;
  const void* from;
  int bytes;
};

}  // namespace hopper_model
