// SPDX-License-Identifier: Apache-2.0
// Device memory for calls that bring none. A buffer is kept between calls for the stream on which it was last used: the
// stream's order keeps its next call from using the buffer too early, and nobody waits.
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
  unsigned long long stream = 0;  // the runtime's number of the stream: handles are reused, numbers are not
  cudaEvent_t free = nullptr;     // recorded after the last use
};

// Buffers that no call uses. Safe to use from many threads. The current device is that of the stream.
class Buffers {
 public:
  static constexpr std::size_t most_kept = 32;   // per device
  static constexpr std::size_t share_kept = 16;  // a 16th of the device's memory

  // A buffer of at least `bytes` bytes for the stream's further work. If memory has run out, it drops all kept buffers
  // and tries again; if that fails, it throws and leaves nothing allocated.
  DeviceBuffer take(int device, cudaStream_t stream, std::size_t bytes);
  // Takes a buffer back. It is free after the stream's work so far.
  void give_back(DeviceBuffer buffer, cudaStream_t stream) noexcept;

  // Frees all kept buffers of a device, and waits until that is done.
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
  std::vector<DeviceBuffer> kept_;                    // the longest unused first
  std::array<cudaStream_t, most_devices> reapers_{};  // by device: streams on which dropped buffers are freed
  int process_ = 0;                                   // the owner of the buffers; a child of fork() has none
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

// Memory that outlives calls. It can be allocated and freed while a stream is being captured, and is no part of a
// graph.
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
