// SPDX-License-Identifier: Apache-2.0
// The ops, compiled for this instruction set: twins of those in epilogue/op.hpp, with the same parameters.
#pragma once

#include <bit>
#include <concepts>
#include <variant>

#include "cpu/simd/math-inl.hpp"
#include "epilogue/op.hpp"

HWY_BEFORE_NAMESPACE();

// Vectors stay in registers only where the math is inlined.
#undef CONVT_FN
#define CONVT_FN HWY_INLINE
#define CONVT_OPS HWY_CONCAT(ops_, CONVT_ISA)
#include "convt_ops_includes.hpp"

namespace convt::core::cpu::CONVT_ISA {
namespace {

namespace twins = core::CONVT_OPS;

template <class Op>
struct Twin;
#define CONVT_OP(name, Type)  \
  template <>                 \
  struct Twin<ops::Type> {    \
    using type = twins::Type; \
  };
#include "epilogue/ops.def"
#undef CONVT_OP

// Calls f with the op's twin.
template <class F>
decltype(auto) visit_twin(const Op& any, F&& f) {
  return std::visit(
      [&]<class T>(const T& op) -> decltype(auto) { return f(std::bit_cast<typename Twin<T>::type>(op)); }, any);
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA

#undef CONVT_OPS
HWY_AFTER_NAMESPACE();
