// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/pointer.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "base/error.hpp"

namespace convt::core::cuda {
namespace {

using GetAttribute = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);

// The driver's query, if somebody in this process has loaded the driver: without it no device pointer can exist. A
// driver that is loaded later is found then.
GetAttribute query() {
  static std::atomic<GetAttribute> known{nullptr};
  if (const GetAttribute found = known.load(std::memory_order_relaxed)) return found;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);  // kept, so that what was found stays
  if (driver == nullptr) return nullptr;
  known = reinterpret_cast<GetAttribute>(dlsym(driver, "cuPointerGetAttribute"));
  return known;
}

// These say that the pointer is none of CUDA's, or that nobody has set CUDA up, so that no pointer is.
bool means_host(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_DEINITIALIZED;
}

[[noreturn]] void fail(CUresult result) {
  throw Error(CONVT_DEVICE_ERROR, fmt::format("cuPointerGetAttribute answers CUDA error {}", static_cast<int>(result)));
}

}  // namespace

Location locate(const void* pointer) {
  const GetAttribute get = query();
  if (get == nullptr) return {};
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
  CUmemorytype type{};
  const CUresult result = get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (means_host(result)) return {};
  if (result != CUDA_SUCCESS) fail(result);
  unsigned int managed = 0;  // managed memory answers as host or device memory, by where it is now
  if (get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS) managed = 0;
  if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return {};
  int ordinal = 0;
  if (const CUresult where = get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address); where != CUDA_SUCCESS)
    fail(where);
  return {CONVT_DEVICE_CUDA, ordinal};
}

}  // namespace convt::core::cuda
