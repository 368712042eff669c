// SPDX-License-Identifier: Apache-2.0
// Plans, kept between calls: the least recently used one goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convt/convt.h"

namespace convt_torch {

// A call, but for its pointers. Two calls with equal keys run by one plan.
struct Key {
  std::string text;  // of the whole problem
  int device_index;  // -1: the CPU
  std::int64_t packed;
  std::uint32_t threads;  // of the CPU that it is made for

  bool operator==(const Key&) const = default;
};

struct Plan {
  Plan(const Key& key, const void* kernel, void* stream);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  convt_plan* handle = nullptr;
  convt_tensor_info output;
  std::vector<convt_tensor_info> operands;
  std::size_t workspace = 0;
};

// The plan for a key, made and kept where there is none; with a packed kernel where the key says so: equal numbers mean
// equal contents.
std::shared_ptr<Plan> plan_for(const Key& key, const void* kernel, void* stream);
bool is_kept(const Key& key);
// Keeps a plan for good: a captured graph uses its packed kernel.
void pin(const std::shared_ptr<Plan>& plan);

// Throws with libconvt's own message where the status says that it failed.
void check(convt_status status);

}  // namespace convt_torch
