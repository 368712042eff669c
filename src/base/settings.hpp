// SPDX-License-Identifier: Apache-2.0
// What a process or a thread has set.
#pragma once

#include <cstddef>
#include <string>

#include "convt/convt.h"

namespace convt::core {

void set_num_threads(std::size_t num_threads);  // 0: every CPU that the caller of num_threads() may use
std::size_t num_threads() noexcept;             // in effect, at least 1

// The CPU time per time that the process' control groups grant, rounded up to whole CPUs; at least 1, and SIZE_MAX
// where nothing limits it. The process' groups are those of root/proc/self/cgroup, their files lie in
// root/sys/fs/cgroup. Versions 1 and 2; a limit of an outer group counts too, and what cannot be read does not.
std::size_t cgroup_cpus(const std::string& root = "");

struct ThreadSettings {
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  void* stream = nullptr;
};
ThreadSettings& thread_settings();

}  // namespace convt::core
