// SPDX-License-Identifier: Apache-2.0
#include "problem/call.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"

namespace convt::core {
namespace {

constexpr std::size_t workspace_alignment = 64;  // a cache line, and the widest vector there is

// One tensor of a call, as checks and messages see it.
struct Use {
  std::string name;
  const void* pointer = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  std::size_t said_bytes = 0;  // by the caller; 0: nothing
};

Use use(std::string name, const void* pointer, std::int64_t count, convt_dtype dtype, std::size_t said_bytes) {
  return {std::move(name), pointer, static_cast<std::size_t>(count) * size_of(dtype), size_of(dtype), said_bytes};
}

// The output first. `call.operands` has the right length.
std::vector<Use> uses(const Descriptor& d, const Call& call, bool packed) {
  std::vector<Use> all;
  all.push_back(use("output", call.output, d.output.count(), d.dtype, call.output_bytes));
  all.push_back(use("input", call.input, d.input.count(), d.dtype, call.input_bytes));
  if (!packed) all.push_back(use("kernel", call.kernel, d.kernel_count, d.dtype, call.kernel_bytes));
  for (std::size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& operand = d.operands[i];
    std::string name = i < call.operand_names.size() ? std::string(call.operand_names[i])
                                                     : fmt::format("operands[{}] ({})", i, operand.spec.name);
    const std::size_t said = i < call.operand_bytes.size() ? call.operand_bytes[i] : 0;
    all.push_back(use(std::move(name), call.operands[i], operand.count, operand.dtype, said));
  }
  return all;
}

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  return address(a) < address(b) ? address(b) - address(a) < a_bytes : address(a) - address(b) < b_bytes;
}

void check_pointer(const Use& t) {
  if (t.said_bytes != 0 && t.said_bytes != t.bytes)
    reject(t.name, "must have {} bytes, by its shape in the plan (got {})", t.bytes, t.said_bytes);
  if (t.bytes == 0) return;
  if (t.pointer == nullptr) reject(t.name, "must not be null (it has {} bytes)", t.bytes);
  if (address(t.pointer) % t.alignment != 0)
    reject(t.name, "must be aligned to its elements of {} bytes (got {})", t.alignment, t.pointer);
  if (address(t.pointer) + t.bytes < t.bytes)
    reject(t.name, "runs past the end of memory ({} bytes from {})", t.bytes, t.pointer);
}

Location check_tensors(const std::vector<Use>& tensors, Locate locate) {
  for (const Use& t : tensors) check_pointer(t);
  const Use& output = tensors.front();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Use& t = tensors[i];
    if (t.bytes != 0 && output.bytes != 0 && overlap(output.pointer, output.bytes, t.pointer, t.bytes))
      reject("output", "must not overlap {} (output: {} bytes from {}, {}: {} bytes from {})", t.name, output.bytes,
             output.pointer, t.name, t.bytes, t.pointer);
  }
  const Use* first = nullptr;
  Location place;
  for (const Use& t : tensors) {
    if (t.bytes == 0) continue;
    const Location here = locate(t.pointer);
    if (first != nullptr && !(here == place))
      reject(t.name, "must be where the other tensors are (it is in memory of {}, {} in memory of {})", print(here),
             first->name, print(place));
    first = &t;
    place = here;
  }
  return place;
}

void check_place(std::string_view argument, const Location& place, const Location& expected) {
  if (!(place == expected))
    reject(argument, "is in memory of {}, but the plan is for {}", print(place), print(expected));
}

void check_workspace(const std::vector<Use>& tensors, const Call& call, const Expected& expected, Locate locate) {
  if (call.workspace == nullptr) return;
  if (call.workspace_size < expected.workspace)
    reject("workspace_size", "must be at least {}, what the plan asks for (got {})", expected.workspace,
           call.workspace_size);
  if (address(call.workspace) % workspace_alignment != 0)
    reject("workspace", "must be aligned to {} bytes (got {})", workspace_alignment, call.workspace);
  for (const Use& t : tensors)
    if (t.bytes != 0 && overlap(call.workspace, call.workspace_size, t.pointer, t.bytes))
      reject("workspace", "must not overlap {} (workspace: {} bytes from {}, {}: {} bytes from {})", t.name,
             call.workspace_size, call.workspace, t.name, t.bytes, t.pointer);
  if (call.workspace_size != 0) check_place("workspace", locate(call.workspace), expected.location);
}

}  // namespace

std::string print(const Location& location) {
  return location.device == CONVT_DEVICE_CPU ? "the host" : fmt::format("CUDA device {}", location.index);
}

Location check_tensors(const Descriptor& descriptor, const Call& call, bool packed, Locate locate) {
  return check_tensors(uses(descriptor, call, packed), locate);
}

void check_call(const Descriptor& descriptor, const Call& call, const Expected& expected, Locate locate) {
  if (call.operands.size() != descriptor.operands.size())
    reject("operand_count", "must be {}, what the chain takes (got {})", descriptor.operands.size(),
           call.operands.size());
  const auto tensors = uses(descriptor, call, expected.packed);
  const Location place = check_tensors(tensors, locate);
  if (tensors.front().bytes != 0) check_place("output", place, expected.location);
  check_workspace(tensors, call, expected, locate);
}

void check_kernel(const Descriptor& descriptor, const void* kernel, const Location& expected, Locate locate) {
  check_pointer(use("kernel", kernel, descriptor.kernel_count, descriptor.dtype, 0));
  check_place("kernel", locate(kernel), expected);
}

}  // namespace convt::core
