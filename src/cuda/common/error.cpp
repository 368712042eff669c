// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/error.hpp"

#include "base/error.hpp"

namespace convt::core::cuda {

void ignore(cudaError_t error) noexcept {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  ignore(error);
  const bool memory = error == cudaErrorMemoryAllocation;
  throw Error(memory ? CONVT_OUT_OF_MEMORY : CONVT_DEVICE_ERROR,
              formatted("{}: {}: {}", what, cudaGetErrorName(error), cudaGetErrorString(error)));
}

}  // namespace convt::core::cuda
