// SPDX-License-Identifier: Apache-2.0
// The instruction sets of this build, and which of them this machine has.
#pragma once

#include <span>
#include <string_view>

#include "cpu/kernels.hpp"
#include "cpu/sum_kernels.hpp"

namespace convt::core::cpu {

struct Isa {
  std::string_view name;
  bool (*runs_here)();
  const ChainKernels<float>& (*chain_f32)();
  const ChainKernels<double>& (*chain_f64)();
  const ConvKernels<float>& (*conv_f32)();
  const ConvKernels<double>& (*conv_f64)();
  const SumKernels<float>& (*sums_f32)();
  const SumKernels<double>& (*sums_f64)();

  template <class T>
  const ChainKernels<T>& chain() const {
    if constexpr (sizeof(T) == sizeof(float))
      return chain_f32();
    else
      return chain_f64();
  }
  template <class T>
  const ConvKernels<T>& conv() const {
    if constexpr (sizeof(T) == sizeof(float))
      return conv_f32();
    else
      return conv_f64();
  }
  template <class T>
  const SumKernels<T>& sums() const {
    if constexpr (sizeof(T) == sizeof(float))
      return sums_f32();
    else
      return sums_f64();
  }
};

std::span<const Isa> isas();  // best first; the last runs everywhere

}  // namespace convt::core::cpu
