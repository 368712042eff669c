// SPDX-License-Identifier: Apache-2.0
// Operands of matrix instructions.
#pragma once

#include <cstdint>

namespace convt::core::cuda::sm90 {

enum class Format { tf32, f16, bf16 };

// An operand in shared memory: rows of 64 or 128 bytes, swizzled by address (see place_in_row()), in groups of 8 rows
// that are `group_rows` rows apart. It may begin at any row; the descriptor's base offset stays 0. Moves are in units
// of 16 bytes: shared memory is smaller than what the field holds, so that a sum does.
struct Operand {
  std::uint32_t place, layout;

  __device__ Operand(std::uint32_t address, int group_rows, int row_bytes)
      : place((address & 0x3ffff) >> 4 | 1U << 16),  // beyond are bits of the block in its cluster
        layout((row_bytes == 128 ? 1U : 2U) << 30 | static_cast<std::uint32_t>(group_rows * row_bytes) >> 4) {}
  __device__ std::uint64_t moved(int units) const {
    return static_cast<std::uint64_t>(layout) << 32 | (place + static_cast<std::uint32_t>(units));
  }
};

}  // namespace convt::core::cuda::sm90
