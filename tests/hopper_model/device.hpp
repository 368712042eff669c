// SPDX-License-Identifier: Apache-2.0
// Included before anything else where kernels are compiled for the host: what nvcc knows by itself.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hopper_model/machine.hpp"
#include "hopper_model/runtime.hpp"

#undef __shared__
#define __shared__ thread_local  // one block runs at a time
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __noinline__

inline void __syncthreads() { hopper_model::sync_block(); }
inline int __syncthreads_or(int own) { return hopper_model::any_of_block(own != 0) ? 1 : 0; }
inline void __syncwarp() { hopper_model::sync_warp(); }
template <class T>
T __shfl_sync(unsigned, T own, int lane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &own, sizeof own);
  bits = hopper_model::exchange(bits, lane);
  std::memcpy(&own, &bits, sizeof own);
  return own;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T own, int apart) {
  return __shfl_sync(mask, own, static_cast<int>(threadIdx.x % hopper_model::warp_threads) ^ apart);
}

inline int __any_sync(unsigned mask, bool own) {
  int any = own ? 1 : 0;
  for (int apart = 1; apart < hopper_model::warp_threads; apart *= 2) any |= __shfl_xor_sync(mask, any, apart);
  return any;
}

inline unsigned __ballot_sync(unsigned mask, bool own) {
  unsigned all = own ? 1U << threadIdx.x % hopper_model::warp_threads : 0U;
  for (int apart = 1; apart < hopper_model::warp_threads; apart *= 2) all |= __shfl_xor_sync(mask, all, apart);
  return all;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline void __threadfence() {}
inline int atomicAdd(int* to, int more) {
  const int before = *to;
  *to += more;
  return before;
}
inline int atomicOr(int* to, int bits) {
  const int before = *to;
  *to |= bits;
  return before;
}
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned places) {
  const std::uint64_t bytes = a | std::uint64_t{b} << 32;
  unsigned chosen = 0;
  for (unsigned i = 0; i < 4; ++i) chosen |= static_cast<unsigned>(bytes >> (places >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return chosen;
}
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
constexpr int min(int a, int b) { return a < b ? a : b; }
constexpr unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
constexpr int max(int a, int b) { return a > b ? a : b; }
constexpr unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

// Kernels have one parameter.
template <class Params>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* how, void (*kernel)(Params), const Params& params) {
  return hopper_model::launch(reinterpret_cast<const void*>(kernel),
                              {how->gridDim.x, how->blockDim.x, how->dynamicSmemBytes}, [&] { kernel(params); });
}
template <class Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params), cudaFuncAttribute attribute, int value) {
  return hopper_model::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
