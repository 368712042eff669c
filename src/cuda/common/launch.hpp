// SPDX-License-Identifier: Apache-2.0
// Launching a kernel whose one parameter is a struct. All of a call travels in it: nothing is copied from host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/common/block.hpp"
#include "cuda/common/error.hpp"

namespace convt::core::cuda {

struct Launch {
  unsigned grid = 1;
  cudaStream_t stream = nullptr;
  std::size_t shared = 0;  // bytes of dynamic shared memory
  // It may begin before the kernel that was launched on the stream just before has ended, if that one lets it
  // (let_next_begin()). It waits itself for what it needs of that one, and always before it ends, so that whoever waits
  // for it waits for both. What came before both has ended: the first of such a row of kernels does not begin early.
  bool early = false;
};

template <class Params>
void launch(void (*kernel)(Params), const char* name, const Launch& how, const Params& params,
            unsigned threads = block_threads) {
  static_assert(sizeof(Params) <= 32764);  // CUDA 12.1 and later
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(how.grid);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = how.shared;
  config.stream = how.stream;
  config.attrs = &early;
  config.numAttrs = how.early ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, params), name);
}

// Blocks for `count` items, `each` per block, at most `most`: kernels that may get fewer loop.
inline unsigned blocks_for(std::int64_t count, std::int64_t each, std::int64_t most = std::int64_t{1} << 30) {
  const std::int64_t blocks = (count + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace convt::core::cuda
