// SPDX-License-Identifier: Apache-2.0
// A multiprocessor on the host. A launch's blocks run one after the other; every thread of a block is a fiber, and a
// fiber gives way where the thread would wait. What the hardware leaves open is decided against the kernel:
//   - shared memory begins as NaN;
//   - warps run in any order; some, or some of their lanes, sleep for a while;
//   - a bulk copy makes NaN of what it writes to when it is issued, and is done when nobody can go on without it;
//   - matrix instructions are done when somebody waits for them, and warps of a warpgroup wait for each other nowhere;
//     or, by the other schedule, when they are committed;
//   - they read what threads have stored only after a fence.
// What is forbidden, or goes nowhere, ends the launch with a text that says what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace hopper_model {

inline constexpr int warp_threads = 32, group_warps = 4;
inline constexpr std::size_t most_shared = 232448;  // of a block

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Schedule {
  bool late = true;  // copies and products; else they are done when they are issued and committed
  std::uint64_t seed = 0;
};
// For launches of this thread from now on.
void set_schedule(const Schedule& schedule);

struct Work {
  unsigned grid = 1, threads = 1;
  std::size_t shared = 0;  // bytes of dynamic shared memory
};
// "", or what went wrong.
std::string run(const Work& work, const std::function<void()>& kernel);

// What follows is for kernels. Addresses in shared memory are offsets.
unsigned char* dynamic_memory();
std::uint64_t* static_words(int count);  // one and the same for all calls of a block
std::uint32_t address_of(const void* pointer);

void sync_block();
bool any_of_block(bool own);  // they meet; whether one says so
void sync_named(int barrier, int threads);
void sync_warp();
std::uint64_t exchange(std::uint64_t own, int lane);  // the warp's lanes meet; what that lane brought

void init_barrier(std::uint32_t barrier, int arrivals);
void arrive(std::uint32_t barrier, std::int64_t expected_bytes = 0);
void wait(std::uint32_t barrier, int parity);

std::uint32_t load_word(const void* from);  // from global memory, of 4 bytes

void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier);
void fence_async();

enum class Element { tf32, f16, bf16 };
void multiply(Element element, int columns, float* sums, std::uint64_t a, std::uint64_t b, bool add = true);
void commit();
void wait_products(int pending);  // for all but so many groups, the latest ones

}  // namespace hopper_model

// Of the fiber that runs.
inline thread_local hopper_model::Index threadIdx, blockIdx, gridDim;
