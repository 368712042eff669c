// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/pointer.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>

namespace convt::core::cuda {
namespace {

using GetAttribute = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);

// The driver's query, if somebody in this process has loaded the driver: without it no device pointer can exist. A
// driver that is loaded later is found then.
GetAttribute query() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  auto* found = reinterpret_cast<GetAttribute>(dlsym(driver, "cuPointerGetAttribute"));
  dlclose(driver);  // the reference just taken; whoever loaded it keeps it
  return found;
}

}  // namespace

Location locate(const void* pointer) {
  const GetAttribute get = query();
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
  // Unregistered host memory, and a driver that nobody initialised, answer with an error.
  unsigned int managed = 0;
  CUmemorytype type{};
  if (get == nullptr || get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) return {};
  if (get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS) managed = 0;
  if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return {};
  int ordinal = 0;
  if (get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS) return {};
  return {CONVT_DEVICE_CUDA, ordinal};
}

}  // namespace convt::core::cuda
