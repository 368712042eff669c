// SPDX-License-Identifier: Apache-2.0
// Loads and stores elements, and converts them to the type that is computed in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "convt/convt.h"

namespace convt::core::cuda {

__device__ inline float to_real(float x) { return x; }
__device__ inline double to_real(double x) { return x; }
__device__ inline float to_real(convt_f16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float to_real(convt_bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }

template <class E>
inline constexpr convt_dtype dtype_of = CONVT_F32;
template <>
inline constexpr convt_dtype dtype_of<double> = CONVT_F64;
template <>
inline constexpr convt_dtype dtype_of<convt_f16> = CONVT_F16;
template <>
inline constexpr convt_dtype dtype_of<convt_bf16> = CONVT_BF16;

template <class E>
__device__ E at(const void* data, std::int64_t index) {
  return static_cast<const E*>(data)[index];
}

// T is float for tensors of f32, f16 and bf16, and double for f64 and f32.
template <class T>
__device__ T load(const void* data, std::int64_t index, convt_dtype dtype) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return dtype == CONVT_F32 ? static_cast<double>(at<float>(data, index)) : at<double>(data, index);
  } else {
    if (dtype == CONVT_F16) return to_real(at<convt_f16>(data, index));
    if (dtype == CONVT_BF16) return to_real(at<convt_bf16>(data, index));
    return at<float>(data, index);
  }
}

// Rounds to nearest and stores.
template <class T>
__device__ void store(void* data, std::int64_t index, convt_dtype dtype, T value) {
  if constexpr (sizeof(T) == sizeof(double)) {
    static_cast<double*>(data)[index] = value;
  } else {
    if (dtype == CONVT_F16)
      static_cast<convt_f16*>(data)[index] = {__half_as_ushort(__float2half_rn(value))};
    else if (dtype == CONVT_BF16)
      static_cast<convt_bf16*>(data)[index] = {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
    else
      static_cast<float*>(data)[index] = value;
  }
}

}  // namespace convt::core::cuda
