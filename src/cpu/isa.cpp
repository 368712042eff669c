// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.hpp"

#include <hwy/detect_targets.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#define CONVT_ONLY_x86(...) __VA_ARGS__
#else
#define CONVT_ONLY_x86(...)
#endif
#if HWY_ARCH_ARM
#define CONVT_ONLY_arm(...) __VA_ARGS__
#else
#define CONVT_ONLY_arm(...)
#endif
#define CONVT_ONLY_any(...) __VA_ARGS__

namespace convt::core::cpu {

#define CONVT_ISA(name, target, arch)       \
  CONVT_ONLY_##arch(namespace name {        \
    template <class T>                      \
    const ChainKernels<T>& chain_kernels(); \
    template <class T>                      \
    const ConvKernels<T>& conv_kernels();   \
    template <class T>                      \
    const SumKernels<T>& sum_kernels();     \
  })
#include "cpu/isas.def"
#undef CONVT_ISA

namespace {

// What Highway's target of that name may use. Needs GCC or Clang on x86, where alone it is asked.
#if HWY_ARCH_X86
// Clang's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_sse4() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }
bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}
#endif
#if HWY_ARCH_ARM
bool has_neon() { return true; }
#endif
bool has_scalar() { return true; }

}  // namespace

std::span<const Isa> isas() {
  static constexpr Isa table[] = {
#define CONVT_ISA(name, target, arch)                                                                         \
  CONVT_ONLY_##arch(                                                                                          \
      {#name, has_##name, name::chain_kernels<float>, name::chain_kernels<double>, name::conv_kernels<float>, \
       name::conv_kernels<double>, name::sum_kernels<float>, name::sum_kernels<double>}, )
#include "cpu/isas.def"
#undef CONVT_ISA
  };
  return table;
}

}  // namespace convt::core::cpu
