// SPDX-License-Identifier: Apache-2.0
#include "plans.hpp"

#include <torch/headeronly/util/Exception.h>

#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <unordered_map>

#include "library.hpp"

namespace convt_torch {

namespace {

struct Hash {
  std::size_t operator()(const Key& key) const {
    const auto number =
        static_cast<std::size_t>(key.packed) * 31 + static_cast<std::size_t>(key.device_index + 1) + 7 * key.threads;
    return std::hash<std::string>()(key.text) ^ number * 0x9E3779B97F4A7C15u;
  }
};

// A child of fork() may inherit a mutex that some thread of its parent held: nothing here may be called between the
// two.
class Cache {
 public:
  std::shared_ptr<Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->plan;
  }

  std::shared_ptr<Plan> insert(const Key& key, std::shared_ptr<Plan> plan) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end()) return found->second->plan;
    recent_.push_front({key, std::move(plan)});
    index_.emplace(key, recent_.begin());
    shrink();
    return recent_.front().plan;
  }

  void pin(const std::shared_ptr<Plan>& plan) {
    const std::lock_guard lock(mutex_);
    pinned_.insert(plan);
  }

  void set_limit(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit < 1 ? 1 : limit;
    shrink();
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    index_.clear();
    recent_.clear();
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return recent_.size();
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<Plan> plan;
  };

  void shrink() {
    while (recent_.size() > limit_) {
      index_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }

  std::mutex mutex_;
  std::list<Entry> recent_;
  std::unordered_map<Key, std::list<Entry>::iterator, Hash> index_;
  std::set<std::shared_ptr<Plan>> pinned_;
  std::size_t limit_ = 256;
};

// Never destroyed: threads may still call at exit.
Cache& cache() {
  static auto* const plans = new Cache;
  return *plans;
}

}  // namespace

void check(convt_status status) { STD_TORCH_CHECK(status == CONVT_OK, "convt: ", library().last_error()); }

Plan::Plan(const Key& key, const void* kernel, void* stream) {
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  if (key.device_index >= 0) {
    options.device = CONVT_DEVICE_CUDA;
    options.device_index = key.device_index;
  }
  const Library& c = library();
  check(c.plan_create_from_text(&handle, key.text.c_str(), &options));
  try {
    check(c.plan_output_info(handle, &output));
    operands.resize(c.plan_operand_count(handle));
    for (std::size_t i = 0; i < operands.size(); ++i) check(c.plan_operand_info(handle, i, &operands[i]));
    check(c.plan_workspace_size(handle, &workspace));
    if (key.packed != 0) check(c.plan_pack_kernel(handle, kernel, stream));
  } catch (...) {
    c.plan_destroy(handle);
    throw;
  }
}

Plan::~Plan() { library().plan_destroy(handle); }

std::shared_ptr<Plan> plan_for(const Key& key, const void* kernel, void* stream) {
  auto plan = cache().find(key);
  if (plan == nullptr) plan = cache().insert(key, std::make_shared<Plan>(key, kernel, stream));
  return plan;
}

bool is_kept(const Key& key) { return cache().find(key) != nullptr; }

void pin(const std::shared_ptr<Plan>& plan) { cache().pin(plan); }

}  // namespace convt_torch

extern "C" {
__attribute__((visibility("default"))) void convt_torch_set_plan_limit(std::size_t limit) {
  convt_torch::cache().set_limit(limit);
}
__attribute__((visibility("default"))) std::size_t convt_torch_plan_count() { return convt_torch::cache().size(); }
__attribute__((visibility("default"))) void convt_torch_clear_plans() { convt_torch::cache().clear(); }
}
