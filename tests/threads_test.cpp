// SPDX-License-Identifier: Apache-2.0
// The pool of threads, and how many threads there are by default.
#include "cpu/threads.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/settings.hpp"

#ifdef __linux__
#include <sched.h>
#endif

namespace convt::core {
namespace {

using cpu::parallel_for;
using namespace std::chrono_literals;

// Whether a loop calls its body once for every item, with slots in range and each held by one thread at a time.
bool loop_is_sound(std::int64_t count, cpu::Crew crew) {
  const std::size_t threads = crew.threads;
  std::vector<int> calls(static_cast<std::size_t>(count));  // not atomic: a sanitizer sees what is not synchronised
  std::vector<std::int64_t> sum_of_slot(threads);
  std::vector<std::atomic<bool>> slot_is_held(threads);
  std::atomic<bool> sound{true};
  parallel_for(count, crew, [&](std::int64_t item, std::size_t slot) {
    if (slot >= threads || slot_is_held[slot].exchange(true)) {
      sound = false;
      return;
    }
    ++calls[static_cast<std::size_t>(item)];
    sum_of_slot[slot] += item;
    slot_is_held[slot] = false;
  });
  for (const int n : calls)
    if (n != 1) sound = false;
  std::int64_t sum = 0;
  for (const std::int64_t part : sum_of_slot) sum += part;
  return sound && sum == count * (count - 1) / 2;
}

// Loops until all of them have more than the caller inside, or ten seconds have passed.
bool workers_help(std::size_t threads) {
  std::atomic<std::size_t> slots{0};
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  parallel_for(static_cast<std::int64_t>(threads), threads, [&](std::int64_t, std::size_t) {
    ++slots;
    while (slots < threads && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  return std::chrono::steady_clock::now() < deadline;
}

TEST(Threads, EveryItemOnce) {
  for (const std::size_t threads : {1u, 2u, 3u, 4u, 7u, 16u, 100u})
    for (const std::int64_t count : {0, 1, 2, 3, 5, 16, 17, 100, 1000, 5000})
      EXPECT_TRUE(loop_is_sound(count, threads)) << count << " items, " << threads << " threads";
  EXPECT_TRUE(loop_is_sound(100, 65536));
}

TEST(Threads, WorkersHelp) {
  EXPECT_TRUE(workers_help(2));
  EXPECT_TRUE(workers_help(8));
  std::this_thread::sleep_for(5ms);  // they sleep by now
  EXPECT_TRUE(workers_help(8));
}

TEST(Threads, ItemsAreHandedOutInOrder) {
  std::vector<std::int64_t> last_of_slot(4, -1);
  std::atomic<bool> ascending{true};
  parallel_for(10000, 4, [&](std::int64_t item, std::size_t slot) {
    if (item <= last_of_slot[slot]) ascending = false;
    last_of_slot[slot] = item;
  });
  EXPECT_TRUE(ascending);
  std::vector<std::int64_t> alone;
  parallel_for(5, 1, [&](std::int64_t item, std::size_t) { alone.push_back(item); });
  EXPECT_EQ(alone, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Threads, LoopsInARow) {
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(loop_is_sound(1 + i % 5, 2 + static_cast<std::size_t>(i % 3)));
}

TEST(Threads, CallersAtOnce) {
  std::atomic<bool> sound{true};
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < 4; ++caller)
    callers.emplace_back([&sound, caller] {
      for (int i = 0; i < 300; ++i) {
        if (!loop_is_sound(1 + i % 50, 1 + (static_cast<std::size_t>(i) + caller) % 5)) sound = false;
        if (i % 100 == 99) std::this_thread::sleep_for(200us);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(sound);
}

// A caller whose workers are all taken does its loop itself.
TEST(Threads, ProgressWithoutWorkers) {
  std::atomic<int> inside{0};
  std::atomic<bool> release{false};
  std::thread holder([&] {
    parallel_for(2, 2, [&](std::int64_t, std::size_t) {
      ++inside;
      while (!release) std::this_thread::yield();
    });
  });
  while (inside == 0) std::this_thread::yield();
  EXPECT_TRUE(loop_is_sound(1000, 2));
  release = true;
  holder.join();
}

// Calls every task in a thread of its own, the first in the caller's; or leaves some out.
struct Lender {
  std::size_t called = SIZE_MAX;  // tasks from here on are left out
  std::size_t loops = 0;

  static void run(void* context, std::size_t tasks, void (*task)(void*, std::size_t), void* argument) {
    Lender& lender = *static_cast<Lender*>(context);
    ++lender.loops;
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(tasks, lender.called); ++i) threads.emplace_back(task, argument, i);
    if (lender.called != 0) task(argument, 0);
    for (std::thread& thread : threads) thread.join();
  }
  convt_thread_pool pool() { return {sizeof(convt_thread_pool), 0, run, this}; }
};

TEST(Threads, LentThreads) {
  for (const std::size_t called : {SIZE_MAX, std::size_t{2}, std::size_t{1}, std::size_t{0}}) {
    Lender lender{called};
    const convt_thread_pool pool = lender.pool();
    EXPECT_TRUE(loop_is_sound(1000, {4, &pool}));
    EXPECT_TRUE(loop_is_sound(3, {4, &pool}));
    EXPECT_EQ(lender.loops, 2U);
    EXPECT_TRUE(loop_is_sound(1, {4, &pool}));
    EXPECT_TRUE(loop_is_sound(10, {1, &pool}));
    EXPECT_EQ(lender.loops, 2U) << "there was nothing to share";
  }
}

TEST(Threads, LentThreadsWorkAtOnce) {
  Lender lender;
  const convt_thread_pool pool = lender.pool();
  std::atomic<int> inside{0};
  std::set<std::thread::id> threads;
  std::mutex mutex;
  parallel_for(3, {3, &pool}, [&](std::int64_t, std::size_t) {
    for (++inside; inside < 3;) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 3U);
}

TEST(Threads, LentThreadsAndExceptions) {
  Lender lender;
  const convt_thread_pool pool = lender.pool();
  std::atomic<int> done{0};
  EXPECT_THROW(parallel_for(1000, {4, &pool},
                            [&](std::int64_t item, std::size_t) {
                              if (item == 5) throw std::runtime_error("five");
                              ++done;
                            }),
               std::runtime_error);
  EXPECT_LT(done, 1000);
}

TEST(Threads, NestedLoopsOnLentThreads) {
  Lender lender;
  const convt_thread_pool pool = lender.pool();
  std::atomic<int> wrong{0};
  parallel_for(8, {4, &pool}, [&](std::int64_t, std::size_t) {
    const auto own = std::this_thread::get_id();
    parallel_for(
        8, 4, [&](std::int64_t, std::size_t slot) { wrong += slot != 0 || std::this_thread::get_id() != own ? 1 : 0; });
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lender.loops, 1U);
}

TEST(Threads, LentThreadsTakeOnTheFloatingPointEnvironmentForALoop) {
  static std::atomic<int> wrong;
  wrong = 0;
  // Threads with a rounding mode of their own, which they find again.
  convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
  pool.parallel_for = [](void*, std::size_t tasks, void (*task)(void*, std::size_t), void* argument) {
    std::thread([=] {
      std::fesetround(FE_TOWARDZERO);
      for (std::size_t i = 0; i < tasks; ++i) task(argument, i);
      wrong += std::fegetround() != FE_TOWARDZERO ? 1 : 0;
    }).join();
  };
  for (const int rounding : {FE_UPWARD, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    parallel_for(100, {4, &pool}, [&](std::int64_t, std::size_t) { wrong += std::fegetround() != rounding ? 1 : 0; });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, NestedLoopsRunOnTheirCaller) {
  for (const std::size_t threads : {1u, 4u}) {
    std::atomic<int> elsewhere{0};
    std::atomic<std::int64_t> items{0};
    parallel_for(20, threads, [&](std::int64_t, std::size_t) {
      const std::thread::id caller = std::this_thread::get_id();
      parallel_for(30, 4, [&](std::int64_t, std::size_t slot) {
        if (slot != 0 || std::this_thread::get_id() != caller) ++elsewhere;
        ++items;
      });
    });
    EXPECT_EQ(elsewhere, 0);
    EXPECT_EQ(items, 600);
  }
  EXPECT_TRUE(workers_help(2));  // and are over
}

TEST(Threads, TheFirstExceptionReachesTheCaller) {
  for (const std::size_t threads : {1u, 2u, 4u})
    for (const std::int64_t thrower : {0, 1, 50, 999}) {
      std::atomic<std::int64_t> begun{0};
      try {
        parallel_for(1000, threads, [&](std::int64_t item, std::size_t) {
          ++begun;
          if (item == thrower) throw std::runtime_error("item " + std::to_string(item));
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "item " + std::to_string(thrower));
      }
      EXPECT_GT(begun, thrower);
    }
  EXPECT_THROW(parallel_for(100, 4, [](std::int64_t item, std::size_t) { throw item; }), std::int64_t);  // all of them
  std::atomic<int> begun{0};
  EXPECT_THROW(parallel_for(1'000'000'000'000, 4,
                            [&](std::int64_t, std::size_t) {
                              ++begun;
                              throw 0;
                            }),
               int);
  EXPECT_LE(begun, 4);
  EXPECT_TRUE(workers_help(2));
}

TEST(Threads, WorkersTakeOnTheFloatingPointEnvironment) {
  EXPECT_TRUE(workers_help(4));
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    std::atomic<int> wrong{0};
    parallel_for(1000, 4, [&](std::int64_t, std::size_t) { wrong += std::fegetround() != rounding ? 1 : 0; });
    EXPECT_EQ(wrong, 0);
  }
}

// Runs `in_child` in a child of fork(), with a time limit in case it hangs.
template <class F>
void expect_child_succeeds(F in_child) {
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(60);
    _exit(in_child() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(Threads, ForkAfterALoop) {
  EXPECT_TRUE(workers_help(2));
  expect_child_succeeds([] { return loop_is_sound(1000, 2) && workers_help(2) && workers_help(4); });
  expect_child_succeeds([] {  // whose child has a pool of its own again
    const bool sound = workers_help(2);
    expect_child_succeeds([] { return workers_help(2); });
    return sound && !testing::Test::HasFailure();
  });
  EXPECT_TRUE(workers_help(2));  // the parent goes on
}

// The others allocate nothing while the test forks: the address sanitizer's allocator would stay locked in the child.
TEST(Threads, ForkWhileOthersRunLoops) {
  EXPECT_TRUE(workers_help(3));
  std::atomic<bool> done{false};
  std::atomic<int> running{0};
  std::atomic<bool> sound{true};
  const auto run_loops = [&] {
    ++running;
    while (!done) {
      std::array<int, 20> calls{};
      parallel_for(20, 3, [&](std::int64_t item, std::size_t) { ++calls[static_cast<std::size_t>(item)]; });
      for (const int n : calls)
        if (n != 1) sound = false;
    }
  };
  std::thread first(run_loops);
  std::thread second(run_loops);
  while (running != 2) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) expect_child_succeeds([] { return loop_is_sound(1000, 2) && workers_help(2); });
  done = true;
  first.join();
  second.join();
  EXPECT_TRUE(sound);
}

// ---------------------------------------------------------------- the number of threads

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "convt_cgroup_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void group(const std::string& lines) const { write("/proc/self/cgroup", lines); }

  std::string root_;
};

TEST_F(CgroupTest, NothingToRead) {
  EXPECT_EQ(cgroup_cpus(root_), SIZE_MAX);
  group("0::/a");
  EXPECT_EQ(cgroup_cpus(root_), SIZE_MAX);
  for (const char* line : {"", ":", "0::", "0::a", "::/a", "0::/../../b", "garbage"}) {
    group(line);
    EXPECT_EQ(cgroup_cpus(root_), SIZE_MAX) << line;
  }
}

TEST_F(CgroupTest, Version2) {
  group("0::/outer/inner");
  write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpus(root_), SIZE_MAX);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "400000 100000");
  EXPECT_EQ(cgroup_cpus(root_), 4u);
  write("/sys/fs/cgroup/outer/cpu.max", "250000 100000");  // an outer limit holds too, rounded up
  EXPECT_EQ(cgroup_cpus(root_), 3u);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "1000 100000");
  EXPECT_EQ(cgroup_cpus(root_), 1u);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "0 0");
  EXPECT_EQ(cgroup_cpus(root_), 3u);
}

TEST_F(CgroupTest, Version2OfAContainer) {
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  for (const char* line : {"0::/", "0::/docker/not/to/be/seen", "0::/../sibling"}) {
    group(line);
    EXPECT_EQ(cgroup_cpus(root_), 2u) << line;
  }
}

TEST_F(CgroupTest, Version1) {
  group("5:cpuset:/x\n4:cpuacct,cpu:/outer/inner\n0::/");
  const std::string mount = "/sys/fs/cgroup/cpuacct,cpu";
  write(mount + "/outer/inner/cpu.cfs_quota_us", "-1");
  write(mount + "/outer/inner/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpus(root_), SIZE_MAX);
  write(mount + "/outer/inner/cpu.cfs_quota_us", "150000");
  EXPECT_EQ(cgroup_cpus(root_), 2u);
  write("/sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1000");
  write("/sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "1000");
  EXPECT_EQ(cgroup_cpus(root_), 2u);  // not the controller's mount
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000");
  EXPECT_EQ(cgroup_cpus(root_), 1u);
}

TEST(NumThreads, FollowsTheAffinityOfTheCaller) {
  const std::size_t before = num_threads();
  EXPECT_GE(before, 1u);
  EXPECT_LE(before, cgroup_cpus());
#ifdef __linux__
  std::thread([] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(num_threads(), 1u);
    set_num_threads(5);
    EXPECT_EQ(num_threads(), 5u);
    set_num_threads(0);
  }).join();
#endif
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace convt::core
