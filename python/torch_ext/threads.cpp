// SPDX-License-Identifier: Apache-2.0
#include "threads.hpp"

#include <pthread.h>
#include <torch/csrc/stable/ops.h>

#include <atomic>
#include <cstddef>

namespace convt_torch {

namespace {

struct Tasks {
  void (*task)(void*, std::size_t);
  void* argument;
};

void run_some(std::int64_t begin, std::int64_t end, void* all) {
  const Tasks& tasks = *static_cast<const Tasks*>(all);
  for (std::int64_t i = begin; i < end; ++i) tasks.task(tasks.argument, static_cast<std::size_t>(i));
}

void parallel_for(void*, std::size_t count, void (*task)(void*, std::size_t), void* argument) {
  Tasks tasks{task, argument};
  // If it fails, tasks were not called, and libconvt does their work.
  static_cast<void>(torch_parallel_for(0, static_cast<std::int64_t>(count), 1, run_some, &tasks));
}

std::atomic<bool> is_child{false};

const bool watches_forks =
    pthread_atfork(nullptr, nullptr, [] { is_child.store(true, std::memory_order_relaxed); }) == 0;

}  // namespace

std::uint32_t threads() { return torch::stable::get_num_threads(); }

bool may_lend() { return watches_forks && !is_child.load(std::memory_order_relaxed); }

convt_thread_pool lent(std::uint32_t threads) {
  convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
  pool.num_threads = threads;
  pool.parallel_for = parallel_for;
  return pool;
}

}  // namespace convt_torch
