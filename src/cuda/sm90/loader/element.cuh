// SPDX-License-Identifier: Apache-2.0
// Elements as operands of matrix instructions: rounding, and the swizzle of rows.
#pragma once

#include "cuda/chain/element.cuh"
#include "cuda/sm90/instructions.cuh"

namespace convt::core::cuda::sm90 {

// A float that is multiplied as f16 in place of tf32: loader/range_guard.cuh.
struct Tf32AsF16 {
  float value;
};
__device__ inline Tf32AsF16 load_next(const Tf32AsF16*& from, std::int64_t bytes) {
  const auto* at = reinterpret_cast<const float*>(from);
  const Tf32AsF16 x{load_next(at, bytes)};
  from = reinterpret_cast<const Tf32AsF16*>(at);
  return x;
}
// Bytes of an element as an operand.
template <class E>
inline constexpr int operand_bytes = sizeof(E);
template <>
inline constexpr int operand_bytes<Tf32AsF16> = 2;

__device__ inline uint4 rounded_vector(const Tf32AsF16* x) {
  const auto pair = [&](int i) { return half_pair(x[i].value, x[i + 1].value); };
  return {pair(0), pair(2), pair(4), pair(6)};
}
__device__ inline uint4 rounded_vector(const float* x) {
  return {tf32_bits(x[0]), tf32_bits(x[1]), tf32_bits(x[2]), tf32_bits(x[3])};
}
template <class E>
__device__ uint4 rounded_vector(const E* x) {
  const auto pair = [&](int i) { return x[i].bits | static_cast<unsigned>(x[i + 1].bits) << 16; };
  return {pair(0), pair(2), pair(4), pair(6)};
}
__device__ inline float rounded_value(float x) { return __uint_as_float(tf32_bits(x)); }
template <class E>
__device__ float rounded_value(E x) {
  return to_real(x);
}

// The swizzled index of a 16-byte unit in its row. Matrix instructions swizzle rows of 64 and 128 bytes by address, so
// that 8 neighbouring rows cover all banks.
__device__ inline int swizzled_unit(int row, int unit, int row_bytes) {
  return unit ^ (row_bytes == 128 ? row % 8 : row / 2 % 4);
}
// The same for the duplicated halo, whose rows of 128 bytes are two pixels, on an address.
__device__ inline int swizzle_duplicated(int address) { return address ^ (address >> 3 & 0x70); }
// The offset of a weight in its tile, in elements.
template <class E>
__device__ int weight_offset(int column, int channel, int row_bytes) {
  constexpr int each = 16 / static_cast<int>(sizeof(E));
  return column * (row_bytes / static_cast<int>(sizeof(E))) + swizzled_unit(column, channel / each, row_bytes) * each +
         channel % each;
}

}  // namespace convt::core::cuda::sm90
