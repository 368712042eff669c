// SPDX-License-Identifier: Apache-2.0
// The pointers of one execution, and the checks on them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

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
  // Sizes the caller believes in; 0, or fewer entries than operands: not said.
  std::size_t input_bytes = 0, kernel_bytes = 0, output_bytes = 0;
  std::span<const std::size_t> operand_bytes{};
  void* workspace = nullptr;
  std::size_t workspace_size = 0;
  void* stream = nullptr;
  const convt_thread_pool* thread_pool = nullptr;  // the caller's threads, for engines on the CPU
};

using Locate = Location (*)(const void* pointer);

// Where the call's tensors are. Rejects tensors said to have another size than theirs, null pointers to tensors that
// are not empty, misaligned ones, an output that overlaps an input, and tensors in several places. A call whose tensors
// are all empty is on the host.
Location check_tensors(const Descriptor& descriptor, const Call& call, bool packed, Locate locate);

// What a plan was made for.
struct Expected {
  Location location;
  std::size_t workspace = 0;  // bytes
  bool packed = false;        // the call's kernel is ignored
};
// All of the above, and: the number of operands, the plan's place, and the workspace, which may be missing, but not too
// small, misaligned, elsewhere, or over a tensor.
void check_call(const Descriptor& descriptor, const Call& call, const Expected& expected, Locate locate);

// A kernel to be packed.
void check_kernel(const Descriptor& descriptor, const void* kernel, const Location& expected, Locate locate);

}  // namespace convt::core
