// SPDX-License-Identifier: Apache-2.0
#include "cpu/simd/expand-inl.hpp"
#include "cpu/simd/measure-inl.hpp"
#include "cpu/simd/pool-inl.hpp"
#include "cpu/simd/run-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {

template <class T>
const ChainKernels<T>& chain_kernels();

template <>
const ChainKernels<CONVT_REAL>& chain_kernels<CONVT_REAL>() {
  using T = CONVT_REAL;
  static constexpr ChainKernels<T> table{read<T>, write<T>,  run<T>,     pool<T>,  fold<T>,
                                         join<T>, result<T>, measure<T>, expand<T>};
  return table;
}

}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
