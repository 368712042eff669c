// SPDX-License-Identifier: Apache-2.0
// Plans of named problems, kept between calls so that a repeated call plans nothing. Kernels are not packed into them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "problem/named.hpp"

namespace convt::core {

// All that a named problem's plan depends on.
struct PlanKey {
  static constexpr std::size_t most_sizes = 24;

  const NamedProblem* row = nullptr;
  convt_dtype dtype = CONVT_F32;
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  std::array<std::size_t, most_sizes> sizes{};  // in the row's order
  std::uint64_t scalar = 0;                     // its bits
  Location location;
  std::size_t threads = 0;
  std::string engine, isa, tile, tf32, ieee;  // from the environment

  bool operator==(const PlanKey&) const = default;
};

// Safe to use from many threads. Full, it drops the plan that was used longest ago; who still runs it keeps it alive.
class PlanCache {
 public:
  static constexpr std::size_t capacity = 64;

  std::shared_ptr<const Plan> find(const PlanKey& key);  // null: not there
  void insert(const PlanKey& key, std::shared_ptr<const Plan> plan);
  void clear();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const Plan> plan;
    std::uint64_t used = 0;
  };
  Entry* entry(const PlanKey& key);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;  // counts uses
};

// The process' own.
PlanCache& plan_cache();

}  // namespace convt::core
