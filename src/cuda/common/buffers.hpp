// SPDX-License-Identifier: Apache-2.0
// Device memory for calls that bring none. Buffers are kept between calls, each for the stream it was last used on:
// there, the next call finds it free when its turn comes, and nobody waits.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace convt::core::cuda {

struct DeviceBuffer {
  void* data = nullptr;
  std::size_t size = 0;
  int device = 0;
  unsigned long long stream = 0;  // the runtime's number of the stream: handles are used again, numbers are not
  cudaEvent_t free = nullptr;     // recorded behind the last use
};

// Buffers that no call uses. Safe to use from many threads. The current device is that of the stream.
class Buffers {
 public:
  static constexpr std::size_t most_kept = 32;   // per device
  static constexpr std::size_t share_kept = 16;  // a 16th of the device's memory

  // At least so many bytes, for the stream's work from now on. Out of memory, it drops all that is kept and tries
  // again; then it throws, and nothing is left allocated.
  DeviceBuffer take(int device, cudaStream_t stream, std::size_t bytes);
  // Behind the stream's work so far.
  void give_back(DeviceBuffer buffer, cudaStream_t stream) noexcept;

  // All that is kept on a device, back to it; waits until it is.
  void release(int device) noexcept;

  void clear() noexcept;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  DeviceBuffer allocate(int device, cudaStream_t stream, std::size_t bytes);
  void trim(int device, std::size_t most_bytes, std::vector<DeviceBuffer>& dropped);
  void drop(const std::vector<DeviceBuffer>& buffers) noexcept;
  std::vector<DeviceBuffer> take_all(int device) noexcept;
  cudaStream_t reaper(int device) noexcept;

  static constexpr int most_devices = 64;
  std::mutex mutex_;
  std::vector<DeviceBuffer> kept_;                    // longest unused first
  std::array<cudaStream_t, most_devices> reapers_{};  // by device: where dropped buffers are freed
  int process_ = 0;                                   // that the buffers belong to; a child of fork() has none
};

// Memory for one call on one stream: one of the process' buffers or, while the stream is captured, memory of the graph.
class Scratch {
 public:
  Scratch(int device, cudaStream_t stream, std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return buffer_.data; }

 private:
  DeviceBuffer buffer_;
  cudaStream_t stream_;
  bool captured_ = false;
};

// Memory that outlives calls; allocated and freed also while some stream is being captured, of which it is no part.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(int device, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  int device_ = 0;
};

}  // namespace convt::core::cuda
