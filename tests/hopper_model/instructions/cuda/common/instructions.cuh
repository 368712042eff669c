// SPDX-License-Identifier: Apache-2.0
// What src/cuda/common/instructions.cuh has, on the host.
#pragma once

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

inline void let_next_begin() {}

}  // namespace convt::core::cuda
