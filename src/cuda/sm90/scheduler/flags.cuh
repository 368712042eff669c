// SPDX-License-Identifier: Apache-2.0
// Flags that a kernel leaves for the next.
#pragma once

#include "cuda/common/block.hpp"
#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/instructions.cuh"

namespace convt::core::cuda::sm90 {

// Whether a flag is set. All threads of a warp call it.
__device__ inline bool any_flag(const Flags& flags) {
  const auto* const data = static_cast<const uint4*>(flags.data);
  int thread = threadIdx.x;
  opaque(thread);  // recomputed, to save registers
  unsigned some = 0;
  for (int i = thread % warp_threads; i < flags.loads; i += warp_threads)
    some |= data[i].x | data[i].y | data[i].z | data[i].w;
  return __any_sync(~0U, some != 0) != 0;
}

}  // namespace convt::core::cuda::sm90
