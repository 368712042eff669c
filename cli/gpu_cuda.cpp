// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "convt/convt.hpp"
#include "gpu.hpp"

namespace convt::cli {
namespace {

void check(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not answer for this one
  throw Error(error == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
              std::string(call) + ": " + cudaGetErrorName(error));
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

std::string gpu_name(int index) {
  if (index >= gpu_count())
    throw Error(Status::unsupported, "there is no CUDA device " + std::to_string(index) + " that can be used");
  cudaDeviceProp properties{};
  check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

void wait_for_gpu(void* stream) { check("cudaStreamSynchronize", cudaStreamSynchronize(stream_of(stream))); }

GpuMemory::GpuMemory(int index, std::size_t bytes) {
  check("cudaSetDevice", cudaSetDevice(index));
  void* data = nullptr;
  check("cudaMalloc", cudaMalloc(&data, bytes));
  data_.reset(static_cast<std::byte*>(data));
}

void GpuMemory::Free::operator()(std::byte* data) const { (void)cudaFree(data); }

void GpuMemory::write(std::span<const std::byte> from, void* stream) const {
  check("cudaMemcpyAsync",
        cudaMemcpyAsync(data_.get(), from.data(), from.size(), cudaMemcpyHostToDevice, stream_of(stream)));
  wait_for_gpu(stream);
}

void GpuMemory::read(std::span<std::byte> to, void* stream) const {
  check("cudaMemcpyAsync",
        cudaMemcpyAsync(to.data(), data_.get(), to.size(), cudaMemcpyDeviceToHost, stream_of(stream)));
  wait_for_gpu(stream);
}

}  // namespace convt::cli
