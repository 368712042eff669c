// SPDX-License-Identifier: Apache-2.0
// What is kept between calls: plans of named problems, and host workspace.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "backends.hpp"
#include "plan/cache.hpp"
#include "plan/workspace.hpp"

namespace convt::core {
namespace {

std::shared_ptr<const Plan> some_plan() {
  PlanOptions options;
  options.engine = "reference";
  const std::string text = "conv_transpose1d channels=1->1 input=3 kernel=2";
  return std::make_shared<const Plan>(validate(parse_problem(text)), options, backends());
}

PlanKey key(std::size_t size) {
  PlanKey key;
  key.row = &named_problems()[0];
  key.sizes[0] = size;
  return key;
}

TEST(PlanCache, FindsWhatWasInserted) {
  PlanCache cache;
  const auto plan = some_plan();
  EXPECT_EQ(cache.find(key(1)), nullptr);
  cache.insert(key(1), plan);
  EXPECT_EQ(cache.find(key(1)), plan);
  EXPECT_EQ(cache.find(key(2)), nullptr);
  cache.insert(key(1), some_plan());  // as a second thread would
  EXPECT_EQ(cache.find(key(1)), plan);
  cache.clear();
  EXPECT_EQ(cache.find(key(1)), nullptr);
  EXPECT_EQ(plan.use_count(), 1);
}

TEST(PlanCache, EveryPartOfTheKeyCounts) {
  const std::vector<void (*)(PlanKey&)> changes{
      [](PlanKey& k) { k.row = &named_problems()[1]; },
      [](PlanKey& k) { k.dtype = CONVT_F64; },
      [](PlanKey& k) { k.precision = CONVT_FLOAT32_TF32; },
      [](PlanKey& k) { k.sizes.back() = 1; },
      [](PlanKey& k) { k.scalar = 1; },
      [](PlanKey& k) { k.location.device = CONVT_DEVICE_CUDA; },
      [](PlanKey& k) { k.location.index = 1; },
      [](PlanKey& k) { k.threads = 2; },
      [](PlanKey& k) { k.engine = "reference"; },
      [](PlanKey& k) { k.isa = "scalar"; },
  };
  PlanCache cache;
  cache.insert(key(1), some_plan());
  for (const auto& change : changes) {
    PlanKey other = key(1);
    change(other);
    EXPECT_EQ(cache.find(other), nullptr);
  }
}

TEST(PlanCache, DropsWhatWasUsedLongestAgo) {
  PlanCache cache;
  const auto plan = some_plan();
  for (std::size_t i = 0; i < PlanCache::capacity; ++i) cache.insert(key(i), plan);
  EXPECT_EQ(cache.find(key(0)), plan);
  cache.insert(key(PlanCache::capacity), plan);
  EXPECT_EQ(cache.find(key(1)), nullptr);
  EXPECT_EQ(cache.find(key(0)), plan);
  EXPECT_EQ(cache.find(key(2)), plan);
  EXPECT_EQ(plan.use_count(), 1 + static_cast<long>(PlanCache::capacity));
}

TEST(PlanCache, ManyThreads) {
  PlanCache cache;
  const auto plan = some_plan();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 500; ++i) {
        const PlanKey wanted = key((i * (t + 1)) % (2 * PlanCache::capacity));
        if (const auto found = cache.find(wanted))
          EXPECT_EQ(found, plan);
        else
          cache.insert(wanted, plan);
        if (i % 100 == 99) cache.clear();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(HostBuffers, AreUsedAgain) {
  HostBuffers buffers;
  const HostBuffer small = buffers.take(1000), large = buffers.take(std::size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data) % 64, 0U);
  EXPECT_GE(small.size, 1000U);
  EXPECT_GE(large.size, std::size_t{5} << 20);
  std::memset(large.data, 1, large.size);
  buffers.give_back(small);
  buffers.give_back(large);
  EXPECT_EQ(buffers.bytes_kept(), small.size + large.size);
  const HostBuffer first = buffers.take(500), second = buffers.take(500);
  EXPECT_EQ(first.data, small.data);  // the one that fits best
  EXPECT_EQ(second.data, large.data);
  EXPECT_EQ(buffers.bytes_kept(), 0U);
  buffers.give_back(first);
  buffers.give_back(second);
  const HostBuffer larger = buffers.take(second.size + 1);
  EXPECT_NE(larger.data, second.data);
  buffers.give_back(larger);
  buffers.clear();
  EXPECT_EQ(buffers.bytes_kept(), 0U);
}

TEST(HostBuffers, AreBounded) {
  HostBuffers buffers;
  std::vector<HostBuffer> taken;
  for (std::size_t i = 0; i < 2 * HostBuffers::most_kept; ++i) taken.push_back(buffers.take(64));
  for (const HostBuffer& buffer : taken) buffers.give_back(buffer);
  EXPECT_EQ(buffers.bytes_kept(), 64 * HostBuffers::most_kept);
  const HostBuffer a = buffers.take(HostBuffers::most_bytes_kept / 2), b = buffers.take(a.size);
  const HostBuffer c = buffers.take(HostBuffers::most_bytes_kept + 1);
  buffers.give_back(a);
  buffers.give_back(b);
  EXPECT_EQ(buffers.bytes_kept(), HostBuffers::most_bytes_kept);
  buffers.give_back(c);  // pushes all others out, and itself
  EXPECT_EQ(buffers.bytes_kept(), 0U);
}

TEST(HostBuffers, TooMuch) {
  HostBuffers buffers;
  EXPECT_THROW(buffers.take(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(buffers.take(SIZE_MAX / 2), std::bad_alloc);
}

TEST(HostBuffers, ManyThreads) {
  HostBuffers buffers;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 500; ++i) {
        const HostBuffer buffer = buffers.take(1 + 997 * ((i + t) % 7));
        std::memset(buffer.data, static_cast<int>(t), buffer.size);
        EXPECT_EQ(static_cast<unsigned char*>(buffer.data)[buffer.size - 1], t);
        buffers.give_back(buffer);
      }
    });
  for (std::thread& thread : threads) thread.join();
  buffers.clear();
}

// A child finds both unlocked, whatever other threads were doing.
TEST(Kept, SurvivesFork) {
  std::atomic<bool> stop{false};
  const auto plan = some_plan();
  std::thread busy([&] {
    for (std::size_t i = 0; !stop; ++i) {
      const Workspace workspace(64 + i % 1024);
      plan_cache().insert(key(i % 100), plan);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(10);
      const Workspace workspace(100);
      plan_cache().insert(key(1), plan);
      _exit(plan_cache().find(key(1)) == plan ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
  plan_cache().clear();
}

}  // namespace
}  // namespace convt::core
