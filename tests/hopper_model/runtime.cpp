// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/runtime.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "cuda/common/pointer.hpp"
#include "hopper_model/contexts.hpp"

namespace hopper_model {
namespace {

constexpr std::size_t default_shared = 48 << 10;  // of a kernel that did not ask for more
constexpr std::size_t device_bytes = std::size_t{8} << 30;

struct Memory {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> blocks;
  std::map<const void*, std::size_t> shared;  // dynamic, that a kernel asked for in this context
  std::uint64_t context = 1;
  int limits_set = 0;
};
Memory& memory() {
  static Memory& all = *new Memory;  // never destroyed: buffers are given back at the very end
  return all;
}

thread_local std::string failure;

cudaError_t allocate(void** to, std::size_t bytes) {
  constexpr std::size_t unit = 256;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  *to = std::aligned_alloc(unit, rounded);
  if (*to == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*to, 0xff, rounded);
  const std::lock_guard lock(memory().mutex);
  memory().blocks[reinterpret_cast<std::uintptr_t>(*to)] = bytes;
  return cudaSuccess;
}
cudaError_t release(void* data) {
  const std::lock_guard lock(memory().mutex);
  if (data != nullptr && memory().blocks.erase(reinterpret_cast<std::uintptr_t>(data)) == 0)
    return cudaErrorInvalidValue;
  std::free(data);
  return cudaSuccess;
}
bool is_of_device(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(memory().mutex);
  auto block = memory().blocks.upper_bound(address);
  if (block == memory().blocks.begin()) return false;
  --block;
  return address - block->first < block->second;
}

}  // namespace

std::vector<const void*>& launched() {
  static thread_local std::vector<const void*> all;
  return all;
}
cudaError_t launch(const void* function, const Work& work, const std::function<void()>& kernel) {
  launched().push_back(function);
  std::size_t most = default_shared;
  {
    const std::lock_guard lock(memory().mutex);
    if (const auto asked = memory().shared.find(function); asked != memory().shared.end()) most = asked->second;
  }
  if (work.shared > most) return cudaErrorInvalidValue;
  failure = run(work, kernel);
  if (failure.empty()) return cudaSuccess;
  std::fprintf(stderr, "%s\n", failure.c_str());
  return cudaErrorLaunchFailure;
}

cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  memory().shared[function] = static_cast<std::size_t>(value);
  ++memory().limits_set;
  return cudaSuccess;
}

int limits_set() {
  const std::lock_guard lock(memory().mutex);
  return memory().limits_set;
}
void change_context() {
  const std::lock_guard lock(memory().mutex);
  ++memory().context;
  memory().shared.clear();
}

}  // namespace hopper_model

namespace convt::core::cuda {

Location locate(const void* pointer) {
  return hopper_model::is_of_device(pointer) ? Location{CONVT_DEVICE_CUDA, 0} : Location{};
}
std::uint64_t current_context() {
  const std::lock_guard lock(hopper_model::memory().mutex);
  return hopper_model::memory().context;
}

}  // namespace convt::core::cuda

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a model of Hopper");
  properties->totalGlobalMem = hopper_model::device_bytes;
  properties->major = 9;
  return cudaSuccess;
}
// Clocks are those of an H200.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  static const std::map<cudaDeviceAttr, int> values = {{cudaDevAttrComputeCapabilityMajor, 9},
                                                       {cudaDevAttrComputeCapabilityMinor, 0},
                                                       {cudaDevAttrMultiProcessorCount, hopper_model::multiprocessors},
                                                       {cudaDevAttrL2CacheSize, 50 << 20},
                                                       {cudaDevAttrClockRate, 1980000},
                                                       {cudaDevAttrMemoryClockRate, 3201000},
                                                       {cudaDevAttrGlobalMemoryBusWidth, 6144},
                                                       {cudaDevAttrMemoryPoolsSupported, 1}};
  const auto found = values.find(which);
  if (found == values.end()) return cudaErrorInvalidValue;
  *value = found->second;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** to, std::size_t bytes) { return hopper_model::allocate(to, bytes); }
cudaError_t cudaMallocAsync(void** to, std::size_t bytes, cudaStream_t) { return hopper_model::allocate(to, bytes); }
cudaError_t cudaFree(void* data) { return hopper_model::release(data); }
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return hopper_model::release(data); }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamGetId(cudaStream_t, unsigned long long* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "the model" : "an error of the model";
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) return hopper_model::failure.c_str();
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an argument is wrong";
}

}  // extern "C"
