// SPDX-License-Identifier: Apache-2.0
// The pointers of one execution, and the checks on them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convt/convt.h"
#include "problem/descriptor.hpp"

namespace convt::core {

struct Location {
  convt_device device = CONVT_DEVICE_CPU;
  int index = 0;
  bool operator==(const Location&) const = default;
};
std::string print(const Location& location);

struct Call {
  const void* input = nullptr;
  const void* kernel = nullptr;  // ignored, and so possibly null, once the kernel is packed
  void* output = nullptr;
  std::span<const void* const> operands{};
  std::span<const std::string_view> operand_names{};  // for messages; where there are none, by position and op
  void* workspace = nullptr;
  std::size_t workspace_size = 0;
  void* stream = nullptr;
};

// One tensor of a call, as checks and messages see it.
struct TensorUse {
  std::string name;
  const void* pointer = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
};
// The output first. The kernel is left out once packed. `call.operands` must have the right length.
std::vector<TensorUse> uses(const Descriptor& descriptor, const Call& call, bool packed);

// Rejects null pointers to tensors that are not empty, misaligned ones, and an output that overlaps an input.
void check_pointers(std::span<const TensorUse> uses);

// Where all of them are; rejects a mixture. `locate` answers for one pointer. Empty calls are on the CPU.
Location common_location(std::span<const TensorUse> uses, Location (*locate)(const void*));

// Rejects a workspace that is too small, misaligned, or overlaps a tensor. None at all is fine.
void check_workspace(std::span<const TensorUse> uses, const Call& call, std::size_t needed);

}  // namespace convt::core
