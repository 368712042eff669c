// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/device.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "cuda/common/error.hpp"
#include "plan/kept.hpp"

namespace convt::core::cuda {
namespace {

constexpr int least_major = 8;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

std::string why_unusable(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  ignore(error);
  if (error != cudaSuccess)
    return formatted("CUDA finds no device: {}: {}", cudaGetErrorName(error), cudaGetErrorString(error));
  if (device >= count) return formatted("there is no CUDA device {}, of {}", device, count);
  return "";
}

DeviceProperties ask(int device) {
  DeviceProperties result;
  result.unusable = why_unusable(device);
  if (!result.unusable.empty()) return result;
  result.major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  result.minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  result.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  result.l2_bytes = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device));
  result.clock = 1e3 * attribute(cudaDevAttrClockRate, device);
  // Two transfers a clock; 8 bits a byte.
  result.bandwidth =
      2e3 * attribute(cudaDevAttrMemoryClockRate, device) * attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  cudaDeviceProp all{};
  check(cudaGetDeviceProperties(&all, device), "cudaGetDeviceProperties");
  result.memory_bytes = all.totalGlobalMem;
  if (result.major < least_major)
    result.unusable = formatted("needs compute capability {}.0, CUDA device {} has {}.{}", least_major, device,
                                result.major, result.minor);
  else if (attribute(cudaDevAttrMemoryPoolsSupported, device) == 0)
    result.unusable = formatted("CUDA device {} has no stream-ordered memory", device);
  return result;
}

// Caches the properties of usable devices. Others are asked again: they may become usable.
class KnownDevices {
 public:
  DeviceProperties find(int device) {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, asked] : known_)
      if (number == device) return asked;
    DeviceProperties fresh = ask(device);
    if (fresh.unusable.empty()) known_.emplace_back(device, fresh);
    return fresh;
  }
  void clear() {
    std::vector<std::pair<int, DeviceProperties>> dropped;
    const std::lock_guard lock(mutex_);
    known_.swap(dropped);
  }
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::vector<std::pair<int, DeviceProperties>> known_;
};
constinit Kept<KnownDevices> known_devices;
const Keeper<known_devices> keeper;

}  // namespace

DeviceGuard::DeviceGuard(int device) : device_(device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device_) check(cudaSetDevice(device_), "cudaSetDevice");
}
DeviceGuard::~DeviceGuard() {
  if (before_ != device_) ignore(cudaSetDevice(before_));
}

DeviceProperties properties(int device) { return known_devices.object.find(device); }

int lanes(const DeviceProperties& device, bool doubles) {
  const bool data_centre = device.minor == 0;  // 8.0, 9.0, 10.0
  if (doubles) return !data_centre ? 2 : device.major == 8 ? 32 : 64;
  return device.major == 8 && data_centre ? 64 : 128;
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace convt::core::cuda
