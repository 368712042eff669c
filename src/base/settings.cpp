// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace convt::core {
namespace {

std::atomic<std::size_t> requested_threads{0};

#ifdef __linux__
// The kernel refuses a set smaller than its own, which may have more than cpu_set_t's 1024 CPUs. 0: not known.
std::size_t affine_cpus() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::size_t>(CPU_COUNT(&set));
  constexpr int most = 1 << 20;
  for (int cpus = 2 * CPU_SETSIZE; cpus <= most; cpus *= 2) {
    cpu_set_t* const large = CPU_ALLOC(cpus);
    if (large == nullptr) return 0;
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, size, large) == 0 ? CPU_COUNT_S(size, large) : 0;
    CPU_FREE(large);
    if (count > 0) return static_cast<std::size_t>(count);
  }
  return 0;
}
#else
std::size_t affine_cpus() noexcept { return 0; }
#endif

std::size_t whole_cpus(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return SIZE_MAX;
  return static_cast<std::size_t>((quota - 1) / period + 1);
}

std::int64_t number_in(const std::string& file) {
  std::int64_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

std::size_t limit_v1(const std::string& folder) {
  return whole_cpus(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"));
}

// "max 100000", or "150000 100000"
std::size_t limit_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  if (!(file >> quota >> period)) return SIZE_MAX;
  return whole_cpus(quota, period);
}

// The smallest limit from `group`, as /proc/self/cgroup writes it, up to the folder where the hierarchy is mounted. In
// a container without a name space of its own the group's outer part is not to be seen there: its folder does not
// exist, and the mount's root is the container's group. "/.." begins a group outside the process' name space.
template <class LimitOf>
std::size_t smallest_limit(const std::string& mount, std::string group, LimitOf limit_of) {
  if (!group.starts_with('/') || group.find("/..") != std::string::npos) group.clear();
  std::size_t smallest = limit_of(mount);
  for (; group.size() > 1; group.resize(group.rfind('/'))) smallest = std::min(smallest, limit_of(mount + group));
  return smallest;
}

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::size_t process_limit() noexcept {
  static std::atomic<std::size_t> known{0};  // not a static local's own guard: a fork() could leave it locked
  std::size_t limit = known.load(std::memory_order_relaxed);
  if (limit != 0) return limit;
  try {
    limit = cgroup_cpus();
  } catch (...) {  // no memory, not even for this
    return SIZE_MAX;
  }
  known.store(limit, std::memory_order_relaxed);
  return limit;
}

}  // namespace

std::size_t cgroup_cpus(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::size_t smallest = SIZE_MAX;
  // hierarchy:controllers:group, one line for each; 0::group is version 2.
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string hierarchy, controllers, group;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    if (hierarchy == "0" && controllers.empty()) {
      smallest = std::min(smallest, smallest_limit(mounts, group, limit_v2));
    } else if (has_word(controllers, "cpu")) {
      for (const std::string_view name : {std::string_view(controllers), std::string_view("cpu")})
        smallest = std::min(smallest, smallest_limit(std::string(mounts).append("/").append(name), group, limit_v1));
    }
  }
  return smallest;
}

void set_num_threads(std::size_t num_threads) { requested_threads.store(num_threads, std::memory_order_relaxed); }

std::size_t num_threads() noexcept {
  const std::size_t requested = requested_threads.load(std::memory_order_relaxed);
  if (requested != 0) return requested;
  const std::size_t affine = affine_cpus();
  const std::size_t cpus = affine != 0 ? affine : std::max(1U, std::thread::hardware_concurrency());
  return std::min(cpus, process_limit());
}

ThreadSettings& thread_settings() {
  thread_local ThreadSettings settings;
  return settings;
}

}  // namespace convt::core
