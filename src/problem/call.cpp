// SPDX-License-Identifier: Apache-2.0
#include "problem/call.hpp"

#include <cstdint>
#include <utility>

#include "base/dtype.hpp"
#include "base/error.hpp"

namespace convt::core {
namespace {

constexpr std::size_t workspace_alignment = 64;  // a cache line, and the widest vector there is

TensorUse use(std::string name, const void* pointer, std::int64_t count, convt_dtype dtype) {
  return {std::move(name), pointer, static_cast<std::size_t>(count) * size_of(dtype), size_of(dtype)};
}

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  return address(a) < address(b) ? address(b) - address(a) < a_bytes : address(a) - address(b) < b_bytes;
}

}  // namespace

std::string print(const Location& location) {
  return location.device == CONVT_DEVICE_CPU ? "the host" : fmt::format("CUDA device {}", location.index);
}

std::vector<TensorUse> uses(const Descriptor& d, const Call& call, bool packed) {
  std::vector<TensorUse> all;
  all.push_back(use("output", call.output, d.output.count(), d.dtype));
  all.push_back(use("input", call.input, d.input.count(), d.dtype));
  if (!packed) all.push_back(use("kernel", call.kernel, d.kernel_count, d.dtype));
  for (std::size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& operand = d.operands[i];
    std::string name = i < call.operand_names.size() ? std::string(call.operand_names[i])
                                                     : fmt::format("operands[{}] ({})", i, operand.spec.name);
    all.push_back(use(std::move(name), call.operands[i], operand.count, operand.dtype));
  }
  return all;
}

void check_pointers(std::span<const TensorUse> uses) {
  const TensorUse& output = uses.front();
  for (const TensorUse& t : uses) {
    if (t.bytes == 0) continue;
    if (t.pointer == nullptr) reject(t.name, "must not be null (it has {} bytes)", t.bytes);
    if (address(t.pointer) % t.alignment != 0)
      reject(t.name, "must be aligned to its elements of {} bytes (got {})", t.alignment, t.pointer);
    if (address(t.pointer) + t.bytes < t.bytes)
      reject(t.name, "runs past the end of memory ({} bytes from {})", t.bytes, t.pointer);
  }
  for (const TensorUse& t : uses.subspan(1))
    if (t.bytes != 0 && output.bytes != 0 && overlap(output.pointer, output.bytes, t.pointer, t.bytes))
      reject("output", "must not overlap {} (output: {} bytes from {}, {}: {} bytes from {})", t.name, output.bytes,
             output.pointer, t.name, t.bytes, t.pointer);
}

Location common_location(std::span<const TensorUse> uses, Location (*locate)(const void*)) {
  const TensorUse* first = nullptr;
  Location place;
  for (const TensorUse& t : uses) {
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

void check_workspace(std::span<const TensorUse> uses, const Call& call, std::size_t needed) {
  if (call.workspace == nullptr) return;
  if (call.workspace_size < needed)
    reject("workspace_size", "must be at least {}, what the plan asks for (got {})", needed, call.workspace_size);
  if (address(call.workspace) % workspace_alignment != 0)
    reject("workspace", "must be aligned to {} bytes (got {})", workspace_alignment, call.workspace);
  for (const TensorUse& t : uses)
    if (t.bytes != 0 && overlap(call.workspace, call.workspace_size, t.pointer, t.bytes))
      reject("workspace", "must not overlap {} (workspace: {} bytes from {}, {}: {} bytes from {})", t.name,
             call.workspace_size, call.workspace, t.name, t.bytes, t.pointer);
}

}  // namespace convt::core
