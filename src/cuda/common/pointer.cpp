// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/pointer.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "base/error.hpp"

namespace convt::core::cuda {
namespace {

using GetAttributes = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);

// The driver's query, or null if nobody in this process has loaded the driver: then no device pointer can exist. A
// driver that is loaded later is found by later calls.
GetAttributes query() {
  static std::atomic<GetAttributes> known{nullptr};
  if (const GetAttributes found = known.load(std::memory_order_relaxed)) return found;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);  // never closed, so that the query stays valid
  if (driver == nullptr) return nullptr;
  known = reinterpret_cast<GetAttributes>(dlsym(driver, "cuPointerGetAttributes"));
  return known;
}

// Results that mean host memory: the pointer is unknown to CUDA (or null), or CUDA is not initialised.
bool means_host(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_DEINITIALIZED;
}

}  // namespace

Location locate(const void* pointer) {
  const GetAttributes get = query();
  if (get == nullptr) return {};
  // For a pointer that CUDA does not know, all attributes are 0. Managed memory is reported as host or device memory,
  // whichever has it now.
  unsigned type = 0, managed = 0;
  int ordinal = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &managed, &ordinal};
  const CUresult result =
      get(3, attributes, values, static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer)));
  if (means_host(result)) return {};
  if (result != CUDA_SUCCESS)
    throw Error(CONVT_DEVICE_ERROR,
                formatted("cuPointerGetAttributes answers CUDA error {}", static_cast<int>(result)));
  if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return {};
  return {CONVT_DEVICE_CUDA, ordinal};
}

}  // namespace convt::core::cuda
