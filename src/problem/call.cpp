// SPDX-License-Identifier: Apache-2.0
#include "problem/call.hpp"

#include <cstdint>
#include <string>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "problem/pieces.hpp"

namespace convt::core {
namespace {

constexpr std::size_t workspace_alignment = 64;  // a cache line, and the widest vector there is

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// One tensor of a call, as checks see it.
struct Use {
  const void* pointer = nullptr;
  std::size_t bytes = 0;  // from its first element to behind its last
  std::size_t alignment = 1;
  std::size_t said_bytes = 0;  // by the caller; 0: nothing
  Pieces pieces{};             // what of it is touched
  bool sliced = false;         // a range of a wider tensor's channels
};

Use use(const void* pointer, std::int64_t count, convt_dtype dtype, std::size_t said_bytes) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  return {pointer, bytes, size_of(dtype), said_bytes, {address(pointer), bytes, 1, bytes}};
}

// Of a tensor that can be a range of the channels of one that has `within`.
Use use(const void* pointer, const Shape& shape, std::int64_t within, convt_layout layout, convt_dtype dtype,
        std::size_t said_bytes) {
  if (within == shape.channels || shape.count() == 0) return use(pointer, shape.count(), dtype, said_bytes);
  const std::size_t element = size_of(dtype);
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * element; };
  const std::int64_t pixels = volume(shape.space), together = layout == CONVT_CHANNELS_FIRST ? pixels : 1;
  const Pieces pieces{address(pointer), bytes(shape.channels * together),
                      static_cast<std::uint64_t>(shape.batch * (pixels / together)), bytes(within * together)};
  return {pointer, (pieces.count - 1) * pieces.period + pieces.size, element, said_bytes, pieces, true};
}

// The tensors of a call, the output first: a view, since every call makes one. `call.operands` has the right length.
class Uses {
 public:
  Uses(const Descriptor& descriptor, const Call& call, bool packed)
      : d_(descriptor), call_(call), first_operand_(packed ? 2 : 3) {}

  std::size_t size() const { return first_operand_ + d_.operands.size(); }

  Use operator[](std::size_t index) const {
    if (index == 0)
      return use(call_.output, d_.output, d_.output_within, d_.output_layout, d_.dtype, call_.output_bytes);
    if (index == 1) return use(call_.input, d_.input, d_.input_within, d_.input_layout, d_.dtype, call_.input_bytes);
    if (index < first_operand_) return use(call_.kernel, d_.kernel_count, d_.dtype, call_.kernel_bytes);
    const std::size_t i = index - first_operand_;
    const std::size_t said = i < call_.operand_bytes.size() ? call_.operand_bytes[i] : 0;
    return use(call_.operands[i], d_.operands[i].count, d_.operands[i].dtype, said);
  }

  // For messages.
  std::string name(std::size_t index) const {
    if (index < first_operand_) return index == 0 ? "output" : index == 1 ? "input" : "kernel";
    const std::size_t i = index - first_operand_;
    return i < call_.operand_names.size() ? std::string(call_.operand_names[i])
                                          : formatted("operands[{}] ({})", i, d_.operands[i].spec.name);
  }

 private:
  const Descriptor& d_;
  const Call& call_;
  std::size_t first_operand_;
};

// `name` says what the tensor is called, where there is something to say about it.
template <class Name>
void check_pointer(const Use& t, const Name& name) {
  if (t.said_bytes != 0 && (t.sliced ? t.said_bytes < t.bytes : t.said_bytes != t.bytes))
    reject(name(), "must have {}{} bytes, by its shape in the plan (got {})", t.sliced ? "at least " : "", t.bytes,
           t.said_bytes);
  if (t.bytes == 0) return;
  if (t.pointer == nullptr) reject(name(), "must not be null (it has {} bytes)", t.bytes);
  if (address(t.pointer) % t.alignment != 0)
    reject(name(), "must be aligned to its elements of {} bytes (got {})", t.alignment, t.pointer);
  if (address(t.pointer) + t.bytes < t.bytes)
    reject(name(), "runs past the end of memory ({} bytes from {})", t.bytes, t.pointer);
}

Location check_tensors(const Uses& tensors, Locate locate) {
  for (std::size_t i = 0; i < tensors.size(); ++i) check_pointer(tensors[i], [&] { return tensors.name(i); });
  const Use output = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Use t = tensors[i];
    if (t.bytes != 0 && output.bytes != 0 && overlap(output.pieces, t.pieces))
      reject("output", "must not overlap {} (output: {} bytes from {}, {}: {} bytes from {})", tensors.name(i),
             output.bytes, output.pointer, tensors.name(i), t.bytes, t.pointer);
  }
  std::size_t first = tensors.size();
  Location place;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Use t = tensors[i];
    if (t.bytes == 0) continue;
    const Location here = locate(t.pointer);
    if (first != tensors.size() && !(here == place))
      reject(tensors.name(i), "must be where the other tensors are (it is in memory of {}, {} in memory of {})",
             print(here), tensors.name(first), print(place));
    first = i;
    place = here;
  }
  return place;
}

void check_place(std::string_view argument, const Location& place, const Location& expected) {
  if (!(place == expected))
    reject(argument, "is in memory of {}, but the plan is for {}", print(place), print(expected));
}

void check_workspace(const Uses& tensors, const Call& call, const Expected& expected, Locate locate) {
  if (call.workspace == nullptr) return;
  if (call.workspace_size < expected.workspace)
    reject("workspace_size", "must be at least {}, what the plan asks for (got {})", expected.workspace,
           call.workspace_size);
  if (address(call.workspace) % workspace_alignment != 0)
    reject("workspace", "must be aligned to {} bytes (got {})", workspace_alignment, call.workspace);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Use t = tensors[i];
    if (t.bytes != 0 && overlap({address(call.workspace), call.workspace_size, 1, call.workspace_size}, t.pieces))
      reject("workspace", "must not overlap {} (workspace: {} bytes from {}, {}: {} bytes from {})", tensors.name(i),
             call.workspace_size, call.workspace, tensors.name(i), t.bytes, t.pointer);
  }
  if (call.workspace_size != 0) check_place("workspace", locate(call.workspace), expected.location);
}

}  // namespace

std::string print(const Location& location) {
  return location.device == CONVT_DEVICE_CPU ? "the host" : formatted("CUDA device {}", location.index);
}

Location check_tensors(const Descriptor& descriptor, const Call& call, bool packed, Locate locate) {
  return check_tensors(Uses(descriptor, call, packed), locate);
}

void check_call(const Descriptor& descriptor, const Call& call, const Expected& expected, Locate locate) {
  if (call.operands.size() != descriptor.operands.size())
    reject("operand_count", "must be {}, what the chain takes (got {})", descriptor.operands.size(),
           call.operands.size());
  const Uses tensors(descriptor, call, expected.packed);
  const Location place = check_tensors(tensors, locate);
  if (tensors[0].bytes != 0) check_place("output", place, expected.location);
  check_workspace(tensors, call, expected, locate);
  if (call.thread_pool != nullptr && call.thread_pool->parallel_for == nullptr)
    reject("thread_pool", "must have a parallel_for");
}

void check_kernel(const Descriptor& descriptor, const void* kernel, const Location& expected, Locate locate) {
  check_pointer(use(kernel, descriptor.kernel_count, descriptor.dtype, 0), [] { return "kernel"; });
  check_place("kernel", locate(kernel), expected);
}

}  // namespace convt::core
