// SPDX-License-Identifier: Apache-2.0
// Devices: the current one, and their properties.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace convt::core::cuda {

// Makes a device current for the calling thread; the destructor restores the previous one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0, device_ = 0;
};

struct DeviceProperties {
  std::string unusable;  // why nothing can run on it; "" if something can
  int major = 0, minor = 0, multiprocessors = 1;
  std::size_t l2_bytes = 0, memory_bytes = 0;
  double clock = 1e9;       // of the multiprocessors, in Hz
  double bandwidth = 1e11;  // of the memory, in bytes per second, by its clock and width
};

// Asked once per device; no context is created. A device that does not exist is unusable.
DeviceProperties properties(int device);

// A multiprocessor's single-precision lanes, or double-precision lanes.
int lanes(const DeviceProperties& device, bool doubles);

bool is_capturing(cudaStream_t stream);

}  // namespace convt::core::cuda
