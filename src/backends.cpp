// SPDX-License-Identifier: Apache-2.0
#include "backends.hpp"

#include "cpu/engine.hpp"
#include "reference/reference.hpp"

#ifdef CONVT_WITH_CUDA
#include "cuda/common/pointer.hpp"
#include "cuda/simt/engine.hpp"
#include "cuda/sm90/host/engine.hpp"
#include "cuda/sums/engine.hpp"
#endif

namespace convt::core {
namespace {

#ifdef CONVT_WITH_CUDA
constexpr bool has_cuda = true;
constexpr auto locate = cuda::locate;
#else
constexpr bool has_cuda = false;
Location locate(const void*) { return {}; }
#endif

}  // namespace

const Backends& backends() {
  static constexpr const Engine& (*engines[])() = {
      cpu_engine,
#ifdef CONVT_WITH_CUDA
      cuda_sums_engine, cuda_sm90_engine, cuda_generic_engine,
#endif
      reference_engine,
  };
  static constexpr Backends table{engines, locate, has_cuda};
  return table;
}

}  // namespace convt::core
