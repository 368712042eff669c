// SPDX-License-Identifier: Apache-2.0
// Launches kernels whose only parameter is a struct. A call's data travel in it: nothing is copied from host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/common/block.hpp"
#include "cuda/common/error.hpp"

namespace convt::core::cuda {

// The limit of a kernel's parameters in CUDA 12.1 and later.
inline constexpr std::size_t most_param_bytes = 32764;

struct Launch {
  unsigned grid = 1;
  cudaStream_t stream = nullptr;
  std::size_t shared = 0;  // bytes of dynamic shared memory
  // The kernel may begin before the stream's previous kernel has ended, if that one calls let_next_begin(). It must
  // wait for what it needs of that kernel, and in any case before it ends, so that who waits for it waits for both.
  // Earlier work has ended: the first kernel of such a series does not begin early.
  bool early = false;
  // Bytes of dynamic shared memory that the kernel is allowed, if over 48 KiB. All launches of a kernel must have the
  // same value, as several threads may launch it.
  int shared_limit = 0;
};

// Work for a stream, whatever its parameters are.
struct StreamWork {
  using Enqueue = void (*)(const StreamWork& work, const void* params);
  Enqueue enqueue = nullptr;
  void (*kernel)() = nullptr;
  const char* name = nullptr;
  Launch how;
  unsigned threads = 1;
};

// Enqueues work, or records it if the calling thread is recording (cuda/common/recording.hpp).
void submit(const StreamWork& work, const void* params, std::size_t bytes);

template <class Params>
void enqueue_kernel(const StreamWork& work, const void* params) {
  auto* const kernel = reinterpret_cast<void (*)(Params)>(work.kernel);
  // submit() leaves it out where it was set before: each context has its own.
  if (work.how.shared_limit != 0)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, work.how.shared_limit), work.name);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(work.how.grid);
  config.blockDim = dim3(work.threads);
  config.dynamicSmemBytes = work.how.shared;
  config.stream = work.how.stream;
  config.attrs = &early;
  config.numAttrs = work.how.early ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, *static_cast<const Params*>(params)), work.name);
}

template <class Params>
void launch(void (*kernel)(Params), const char* name, const Launch& how, const Params& params,
            unsigned threads = block_threads) {
  static_assert(sizeof(Params) <= most_param_bytes && std::is_trivially_copyable_v<Params>);
  submit({enqueue_kernel<Params>, reinterpret_cast<void (*)()>(kernel), name, how, threads}, &params, sizeof(Params));
}

// Sets memory to zeros.
void clear(void* data, std::size_t bytes, cudaStream_t stream);

// Blocks for `count` items, `each` per block, at most `most`. A kernel with a limit must loop over its items.
inline unsigned blocks_for(std::int64_t count, std::int64_t each, std::int64_t most = std::int64_t{1} << 30) {
  const std::int64_t blocks = (count + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace convt::core::cuda
