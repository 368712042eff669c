// SPDX-License-Identifier: Apache-2.0
#include "backends.hpp"

#include "reference/reference.hpp"

#ifdef CONVT_WITH_CUDA
#include "cuda/common/pointer.hpp"
#endif

namespace convt::core {
namespace {

#ifdef CONVT_WITH_CUDA
constexpr auto locate = cuda::locate;
#else
Location locate(const void*) { return {}; }
#endif

}  // namespace

const Backends& backends() {
  static const Engine* const engines[] = {
      &reference_engine(),
  };
  static const Backends table{engines, locate};
  return table;
}

}  // namespace convt::core
