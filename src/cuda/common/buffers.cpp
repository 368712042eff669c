// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/buffers.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cuda/common/device.hpp"
#include "cuda/common/error.hpp"
#include "plan/kept.hpp"

namespace convt::core::cuda {
namespace {

constinit Kept<Buffers> buffers;
const Keeper<buffers> keeper;

constexpr std::size_t unit = std::size_t{2} << 20;  // sizes are multiples of it, so that buffers fit later calls, too

unsigned long long number_of(cudaStream_t stream) {
  unsigned long long number = 0;
  check(cudaStreamGetId(stream, &number), "cudaStreamGetId");
  return number;
}

// While an object of this class lives, the calling thread may allocate and free, even if streams are being captured.
class OutsideCaptures {
 public:
  OutsideCaptures() { ignore(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCaptures() { ignore(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Frees something on a device, unless the process is ending and the driver has been unloaded.
template <class F>
void free_on(int device, F&& free) noexcept {
  try {
    const DeviceGuard guard(device);
    const OutsideCaptures outside;
    free();
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

DeviceBuffer Buffers::take(int device, cudaStream_t stream, std::size_t bytes) {
  const unsigned long long number = number_of(stream);
  {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto buffer = kept_.begin(); buffer != kept_.end(); ++buffer)
      if (buffer->device == device && buffer->stream == number && buffer->size >= bytes &&
          (best == kept_.end() || buffer->size <= best->size))
        best = buffer;
    if (best != kept_.end()) {
      const DeviceBuffer found = *best;
      kept_.erase(best);
      return found;
    }
  }
  DeviceBuffer fresh = allocate(device, stream, (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit);
  fresh.stream = number;
  return fresh;
}

DeviceBuffer Buffers::allocate(int device, cudaStream_t stream, std::size_t bytes) {
  const OutsideCaptures outside;
  DeviceBuffer fresh{nullptr, bytes, device, 0, nullptr};
  check(cudaEventCreateWithFlags(&fresh.free, cudaEventDisableTiming), "cudaEventCreate");
  cudaError_t error = cudaMallocAsync(&fresh.data, bytes, stream);
  if (error == cudaErrorMemoryAllocation) {
    ignore(error);
    release(device);
    error = cudaMallocAsync(&fresh.data, bytes, stream);
  }
  if (error != cudaSuccess) ignore(cudaEventDestroy(fresh.free));
  check(error, "memory for the workspace");
  return fresh;
}

void Buffers::release(int device) noexcept {
  drop(take_all(device));
  if (const cudaStream_t reap = reaper(device)) ignore(cudaStreamSynchronize(reap));
  cudaMemPool_t pool = nullptr;
  if (cudaDeviceGetMemPool(&pool, device) == cudaSuccess) ignore(cudaMemPoolTrimTo(pool, 0));
}

void Buffers::give_back(DeviceBuffer buffer, cudaStream_t stream) noexcept {
  const std::size_t most_bytes = properties(buffer.device).memory_bytes / share_kept;
  std::vector<DeviceBuffer> dropped;
  bool kept = buffer.size <= most_bytes && cudaEventRecord(buffer.free, stream) == cudaSuccess;
  if (kept) {
    const std::lock_guard lock(mutex_);
    try {
      kept_.reserve(kept_.size() + 1);
      dropped.reserve(kept_.size() + 1);
      kept_.push_back(buffer);
      trim(buffer.device, most_bytes, dropped);
    } catch (const std::bad_alloc&) {
      kept = false;
    }
  }
  if (!kept) {
    ignore(cudaFreeAsync(buffer.data, stream));
    ignore(cudaEventDestroy(buffer.free));
  }
  drop(dropped);
}

// Keeps the latest buffers and moves others to `dropped`, which has room for all.
void Buffers::trim(int device, std::size_t most_bytes, std::vector<DeviceBuffer>& dropped) {
  process_ = getpid();
  std::size_t count = 0, bytes = 0;
  for (auto one = kept_.end(); one != kept_.begin();) {
    --one;
    if (one->device != device || (++count <= most_kept && (bytes += one->size) <= most_bytes)) continue;
    dropped.push_back(*one);
    one = kept_.erase(one);
  }
}

std::vector<DeviceBuffer> Buffers::take_all(int device) noexcept {
  std::vector<DeviceBuffer> all;
  const std::lock_guard lock(mutex_);
  const auto own =
      std::stable_partition(kept_.begin(), kept_.end(), [&](const DeviceBuffer& one) { return one.device != device; });
  try {
    all.assign(own, kept_.end());
    kept_.erase(own, kept_.end());
  } catch (const std::bad_alloc&) {
    all.clear();
  }
  return all;
}

cudaStream_t Buffers::reaper(int device) noexcept {
  if (device >= most_devices) return nullptr;
  const std::lock_guard lock(mutex_);
  cudaStream_t& stream = reapers_[static_cast<std::size_t>(device)];
  if (stream == nullptr) ignore(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// The stream of a buffer may have been destroyed; its event is still valid.
void Buffers::drop(const std::vector<DeviceBuffer>& dropped) noexcept {
  for (const DeviceBuffer& buffer : dropped)
    free_on(buffer.device, [&] {
      const cudaStream_t stream = reaper(buffer.device);
      if (stream != nullptr && cudaStreamWaitEvent(stream, buffer.free) == cudaSuccess)
        ignore(cudaFreeAsync(buffer.data, stream));
      else
        ignore(cudaFree(buffer.data));
      ignore(cudaEventDestroy(buffer.free));
    });
}

void Buffers::clear() noexcept {
  std::vector<DeviceBuffer> all;
  {
    const std::lock_guard lock(mutex_);
    kept_.swap(all);
    if (process_ != getpid()) return;
  }
  drop(all);
  for (int device = 0; device < most_devices; ++device)
    if (cudaStream_t& stream = reapers_[static_cast<std::size_t>(device)]; stream != nullptr)
      free_on(device, [&] { ignore(cudaStreamDestroy(std::exchange(stream, nullptr))); });
}

Scratch::Scratch(int device, cudaStream_t stream, std::size_t bytes) : stream_(stream) {
  if (bytes == 0) return;
  captured_ = is_capturing(stream);
  if (captured_)
    check(cudaMallocAsync(&buffer_.data, bytes, stream), "memory for the workspace, of the graph that is captured");
  else
    buffer_ = buffers.object.take(device, stream, bytes);
}

Scratch::~Scratch() {
  if (buffer_.data == nullptr) return;
  if (captured_)
    ignore(cudaFreeAsync(buffer_.data, stream_));
  else
    buffers.object.give_back(buffer_, stream_);
}

DeviceMemory::DeviceMemory(int device, std::size_t bytes) : device_(device) {
  const OutsideCaptures outside;
  cudaError_t error = cudaMalloc(&data_, std::max<std::size_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    ignore(error);
    buffers.object.release(device);
    error = cudaMalloc(&data_, std::max<std::size_t>(bytes, 1));
  }
  check(error, "memory for the packed kernel");
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), device_(other.device_) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(device_, other.device_);
  return *this;
}
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) free_on(device_, [&] { ignore(cudaFree(data_)); });
}

}  // namespace convt::core::cuda
