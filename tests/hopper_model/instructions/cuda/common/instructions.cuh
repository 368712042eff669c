// SPDX-License-Identifier: Apache-2.0
// What src/cuda/common/instructions.cuh has, on the host.
#pragma once

#include <cmath>
#include <cstring>

#include "hopper_model/machine.hpp"

namespace convt::core::cuda {

inline unsigned char* dynamic_shared() { return hopper_model::dynamic_memory(); }

template <int barrier, int threads>
void sync_some() {
  hopper_model::sync_named(barrier, threads);
}

inline void copy_16(void* shared, const void* global) { std::memcpy(shared, global, 16); }
inline void wait_copies() {}

inline float power_of_two(float x) {
  const float power = std::exp2(x);
  return std::fpclassify(power) == FP_SUBNORMAL ? 0.0f : power;
}
inline float inverse_root(float x) { return 1.0f / std::sqrt(x); }
inline float maximum(float a, float b) { return std::isnan(a) || a > b ? a : b; }
inline float minimum(float a, float b) { return std::isnan(a) || a < b ? a : b; }
inline float quotient(float a, float b) { return a / b; }
inline float inverse(float x) { return 1 / x; }
inline float square_root(float x) { return std::sqrt(x); }
inline float log_of_two(float x) { return std::log2(x); }

inline void let_next_begin() {}

}  // namespace convt::core::cuda
