// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace convt::core {
namespace {

std::atomic<std::size_t> requested_threads{0};

std::size_t available_cpus() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

void set_num_threads(std::size_t num_threads) { requested_threads.store(num_threads, std::memory_order_relaxed); }

std::size_t num_threads() {
  const std::size_t requested = requested_threads.load(std::memory_order_relaxed);
  return requested != 0 ? requested : available_cpus();
}

ThreadSettings& thread_settings() {
  thread_local ThreadSettings settings;
  return settings;
}

}  // namespace convt::core
