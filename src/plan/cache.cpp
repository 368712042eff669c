// SPDX-License-Identifier: Apache-2.0
#include "plan/cache.hpp"

#include <algorithm>
#include <utility>

#include "plan/kept.hpp"

namespace convt::core {
namespace {

constinit Kept<PlanCache> cache;
const Keeper<cache> keeper;

}  // namespace

PlanCache& plan_cache() { return cache.object; }

PlanCache::Entry* PlanCache::entry(const PlanKey& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  found->used = ++clock_;
  return &*found;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) {
  const std::lock_guard lock(mutex_);
  const Entry* found = entry(key);
  return found == nullptr ? nullptr : found->plan;
}

void PlanCache::insert(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  Entry added{key, std::move(plan), 0};  // and then what it pushes out, which ends outside the lock
  const std::lock_guard lock(mutex_);
  if (entry(key) != nullptr) return;  // another thread was faster
  added.used = ++clock_;
  if (entries_.size() < capacity) {
    entries_.push_back(std::move(added));
  } else {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    std::swap(*oldest, added);
  }
}

void PlanCache::clear() {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  entries_.swap(dropped);
}

}  // namespace convt::core
