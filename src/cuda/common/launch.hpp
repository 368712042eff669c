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
};

template <class Params>
void launch(void (*kernel)(Params), const char* name, const Launch& how, const Params& params) {
  static_assert(sizeof(Params) <= 4096);
  void* arguments[] = {const_cast<Params*>(&params)};
  check(cudaLaunchKernel(kernel, dim3(how.grid), dim3(block_threads), arguments, how.shared, how.stream), name);
}

// Blocks for `count` items, `each` per block, at most `most`: kernels that may get fewer loop.
inline unsigned blocks_for(std::int64_t count, std::int64_t each, std::int64_t most = std::int64_t{1} << 30) {
  const std::int64_t blocks = (count + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace convt::core::cuda
