// SPDX-License-Identifier: Apache-2.0
#include "plan/workspace.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "plan/kept.hpp"

namespace convt::core {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Null when memory ran out.
HostBuffer allocate(std::size_t bytes) {
  const std::size_t unit = bytes < huge_page ? line : huge_page;
  if (bytes > SIZE_MAX - unit) return {};
  const std::size_t size = (bytes + unit - 1) / unit * unit;
  void* const data = std::aligned_alloc(unit, size);
#ifdef __linux__
  if (data != nullptr && unit == huge_page) madvise(data, size, MADV_HUGEPAGE);
#endif
  return {data, size};
}

constinit Kept<HostBuffers> buffers;
const Keeper<buffers> keeper;

}  // namespace

HostBuffer HostBuffers::take(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto buffer = kept_.begin(); buffer != kept_.end(); ++buffer)
      if (buffer->size >= bytes && (best == kept_.end() || buffer->size <= best->size)) best = buffer;
    if (best != kept_.end()) {
      const HostBuffer found = *best;
      kept_.erase(best);
      bytes_ -= found.size;
      return found;
    }
  }
  HostBuffer fresh = allocate(bytes);
  if (fresh.data == nullptr) {
    clear();
    fresh = allocate(bytes);
  }
  if (fresh.data == nullptr) throw std::bad_alloc();
  return fresh;
}

void HostBuffers::give_back(HostBuffer buffer) noexcept {
  HostBuffer dropped[most_kept + 1];
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    try {
      kept_.reserve(most_kept + 1);
    } catch (const std::bad_alloc&) {
      std::free(buffer.data);
      return;
    }
    kept_.push_back(buffer);
    bytes_ += buffer.size;
    while (kept_.size() > most_kept || bytes_ > most_bytes_kept) {
      dropped[count++] = kept_.front();
      bytes_ -= kept_.front().size;
      kept_.erase(kept_.begin());
    }
  }
  for (std::size_t i = 0; i < count; ++i) std::free(dropped[i].data);
}

void HostBuffers::clear() noexcept {
  std::vector<HostBuffer> dropped;
  {
    const std::lock_guard lock(mutex_);
    kept_.swap(dropped);
    bytes_ = 0;
  }
  for (const HostBuffer& buffer : dropped) std::free(buffer.data);
}

std::size_t HostBuffers::bytes_kept() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

Workspace::Workspace(std::size_t bytes) : buffer_(buffers.object.take(bytes)) {}
Workspace::~Workspace() { buffers.object.give_back(buffer_); }

}  // namespace convt::core
