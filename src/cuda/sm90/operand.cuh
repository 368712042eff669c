// SPDX-License-Identifier: Apache-2.0
// Operands of matrix instructions.
#pragma once

#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

// An operand in shared memory: rows of 64 or 128 bytes, swizzled by address (swizzled_unit()), in groups of 8 rows that
// are equally far apart (operand_layout()). It may begin at any row; the descriptor's base offset stays 0. Offsets are
// in units of 16 bytes and can be added to the descriptor: shared memory is smaller than its address field.
struct Operand {
  int start;
  std::uint32_t layout;

  // The descriptor of an operand that begins at another address.
  __device__ std::uint64_t at(int other) const {
    return static_cast<std::uint64_t>(layout) << 32 | static_cast<std::uint32_t>(other);
  }
};

// The descriptor's address field.
__device__ inline int descriptor_start(std::uint32_t address) {
  return static_cast<int>((address & 0x3ffff) >> 4 | 1U << 16);
}

}  // namespace convt::core::cuda::sm90
