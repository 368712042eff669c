// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <dlfcn.h>
#include <torch/headeronly/util/Exception.h>

namespace convt_torch {

namespace {

Library bound;
int (*precision_source)(int device_index) = nullptr;  // Python's: the stable ABI has no such question
bool is_bound = false;

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

// A function of a library that is loaded already, or null.
template <class Function>
Function loaded(const char* file, const char* name) {
  void* handle = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  Function function = nullptr;
  if (handle != nullptr) find(handle, name, function);
  return function;
}

}  // namespace

const Library& library() {
  STD_TORCH_CHECK(is_bound, "convt: libconvt_torch.so was loaded without convt.torch: import convt.torch first");
  return bound;
}

// The stable ABI has this function in the CUDA half of torch, which a CPU-only torch lacks.
void* current_stream(int device_index) {
  static const auto get = loaded<int (*)(int, void**)>("libtorch_cuda.so", "aoti_torch_get_current_cuda_stream");
  void* stream = nullptr;
  STD_TORCH_CHECK(get != nullptr && get(device_index, &stream) == 0,
                  "convt: PyTorch has no stream for cuda:", device_index);
  return stream;
}

bool is_capturing(void* stream) {
  static const auto status = loaded<int (*)(void*, int*)>("libcuda.so.1", "cuStreamIsCapturing");
  int capturing = 0;
  return status != nullptr && status(stream, &capturing) == 0 && capturing != 0;
}

bool allows_tf32(int device_index) { return precision_source != nullptr && precision_source(device_index) != 0; }

}  // namespace convt_torch

extern "C" __attribute__((visibility("default"))) void convt_torch_set_precision_source(int (*source)(int)) {
  convt_torch::precision_source = source;
}

// Binds to the libconvt at `path`, which is loaded if it is not. 0, or 1 where a function is missing there.
extern "C" __attribute__((visibility("default"))) int convt_torch_bind(const char* path) {
  using namespace convt_torch;
  void* handle = dlopen(path, RTLD_NOW);
  if (handle == nullptr) return 1;
  Library found;
  const bool all = find(handle, "convt_last_error", found.last_error) &&
                   find(handle, "convt_set_num_threads", found.set_num_threads) &&
                   find(handle, "convt_plan_create_from_text", found.plan_create_from_text) &&
                   find(handle, "convt_plan_destroy", found.plan_destroy) &&
                   find(handle, "convt_plan_output_info", found.plan_output_info) &&
                   find(handle, "convt_plan_operand_count", found.plan_operand_count) &&
                   find(handle, "convt_plan_operand_info", found.plan_operand_info) &&
                   find(handle, "convt_plan_workspace_size", found.plan_workspace_size) &&
                   find(handle, "convt_plan_pack_kernel", found.plan_pack_kernel) &&
                   find(handle, "convt_plan_execute", found.plan_execute);
  if (!all) return 1;
  bound = found;
  is_bound = true;
  return 0;
}
