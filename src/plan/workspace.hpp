// SPDX-License-Identifier: Apache-2.0
// Host memory for calls that bring none. Buffers are kept between calls: a fresh one of 16 MiB costs its page faults,
// milliseconds, in every call.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace convt::core {

struct HostBuffer {
  void* data = nullptr;
  std::size_t size = 0;
};

// Buffers that nobody uses. Safe to use from many threads.
class HostBuffers {
 public:
  static constexpr std::size_t most_kept = 16;
  static constexpr std::size_t most_bytes_kept = std::size_t{256} << 20;

  HostBuffer take(std::size_t bytes);  // at least so many, aligned to 64, of any content; throws std::bad_alloc
  void give_back(HostBuffer buffer) noexcept;
  void clear() noexcept;
  std::size_t bytes_kept();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::vector<HostBuffer> kept_;  // longest unused first
  std::size_t bytes_ = 0;
};

// One of the process' buffers, for the time of a call.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  void* data() const { return buffer_.data; }

 private:
  HostBuffer buffer_;
};

}  // namespace convt::core
