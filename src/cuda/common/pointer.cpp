// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/pointer.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "base/error.hpp"

namespace convt::core::cuda {
namespace {

// A function of the driver, or null if nobody in this process has loaded the driver: then no device pointer can exist.
// A driver that is loaded later is found by later calls.
template <class Function>
Function find(std::atomic<Function>& known, const char* name) {
  if (const Function found = known.load(std::memory_order_relaxed)) return found;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);  // never closed, so that the function stays valid
  if (driver == nullptr) return nullptr;
  known = reinterpret_cast<Function>(dlsym(driver, name));
  return known;
}

using GetAttributes = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);
constinit std::atomic<GetAttributes> get_attributes{nullptr};
using GetCurrent = CUresult (*)(CUcontext*);
constinit std::atomic<GetCurrent> get_current{nullptr};
using GetId = CUresult (*)(CUcontext, unsigned long long*);
constinit std::atomic<GetId> get_id{nullptr};

// Results that mean host memory: the pointer is unknown to CUDA (or null), or CUDA is not initialised.
bool means_host(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_DEINITIALIZED;
}

}  // namespace

Location locate(const void* pointer) {
  const GetAttributes get = find(get_attributes, "cuPointerGetAttributes");
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

std::uint64_t current_context() {
  const GetCurrent current = find(get_current, "cuCtxGetCurrent");
  const GetId ask = find(get_id, "cuCtxGetId");
  CUcontext context = nullptr;
  unsigned long long id = 0;
  if (current == nullptr || ask == nullptr || current(&context) != CUDA_SUCCESS || context == nullptr ||
      ask(context, &id) != CUDA_SUCCESS)
    return 0;
  return id;
}

}  // namespace convt::core::cuda
