// SPDX-License-Identifier: Apache-2.0
// The ops on a device, with the members and parameters of those in epilogue/op.hpp. A kernel gets an op as its index in
// ops.def and its bytes.
#pragma once

#include <type_traits>

#include "epilogue/families.hpp"

#define CONVT_OPS ops_device
#include "convt_ops_includes.hpp"
#undef CONVT_OPS

namespace convt::core::cuda {

enum class OpNumber : int {
#define CONVT_OP(name, Type) name,
#include "epilogue/ops.def"
#undef CONVT_OP
};

// Calls f with the op, if it is one of the family.
template <class Family, class F>
__device__ void visit(int number, const void* bytes, F&& f) {
  switch (static_cast<OpNumber>(number)) {
#define CONVT_OP(name, Type)                                                                                    \
  case OpNumber::name:                                                                                          \
    if constexpr (std::is_base_of_v<Family, ops_device::Type>) f(*static_cast<const ops_device::Type*>(bytes)); \
    break;
#include "epilogue/ops.def"
#undef CONVT_OP
  }
}

// Norms differ only in their regions, which the math does not depend on. So all share one copy of the math.
template <class Op>
__device__ decltype(auto) math_of(const Op& op) {
  if constexpr (std::is_base_of_v<ops_device::Norm, Op>)
    return static_cast<const ops_device::Norm&>(op);
  else
    return static_cast<const Op&>(op);
}

}  // namespace convt::core::cuda
