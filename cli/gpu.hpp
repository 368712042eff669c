// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs, as the command needs it to hand device pointers to the library. gpu_cuda.cpp in a CUDA build,
// gpu_none.cpp, where there is no GPU, in any other.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace convt::cli {

// 0 where there is none, or no driver for it.
int gpu_count();
// As its maker calls it.
std::string gpu_name(int index);

// Waits until the work on a stream is done. Throws convt::Error when some of it failed.
void wait_for_gpu(void* stream);

// A block of a GPU's memory, aligned to 256 bytes. Copies are ordered by their stream and done when they return.
// Failures throw convt::Error. The calling thread's current GPU becomes the block's.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(int index, std::size_t bytes);

  std::byte* data() const { return data_.get(); }
  void write(std::span<const std::byte> from, void* stream) const;
  void read(std::span<std::byte> to, void* stream) const;

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace convt::cli
