// SPDX-License-Identifier: Apache-2.0
// Elements as operands of matrix instructions: rounding, and the swizzle of rows.
#pragma once

#include <type_traits>

#include "cuda/chain/element.cuh"
#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/instructions.cuh"

namespace convt::core::cuda::sm90 {

// A float that is multiplied as f16 instead of tf32 (loader/range_guard.cuh).
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

// A float as two tf32 parts, rounded to nearest, whose sum has 22 to 24 significant bits. A row of an operand has the
// high parts of its channels, then the low parts.
struct SplitTf32 {
  float value;
};
__device__ inline SplitTf32 load_next(const SplitTf32*& from, std::int64_t bytes) {
  const auto* at = reinterpret_cast<const float*>(from);
  const SplitTf32 x{load_next(at, bytes)};
  from = reinterpret_cast<const SplitTf32*>(at);
  return x;
}
template <>
inline constexpr int operand_bytes<SplitTf32> = operand_bytes_of(Format::tf32x3);
// Split operands name SplitTf32 as their elements: their epilogues are as accurate as float32 is.
template <class E>
inline constexpr bool is_precise = std::is_same_v<E, SplitTf32>;
template <class E>
using ResultOf = std::conditional_t<is_precise<E>, float, E>;

// A float as two f16 parts. Inputs and weights are scaled first, so that low parts are in f16's range
// (loader/range_guard.cuh).
struct SplitF16 {
  float value;
};
__device__ inline SplitF16 load_next(const SplitF16*& from, std::int64_t bytes) {
  const auto* at = reinterpret_cast<const float*>(from);
  const SplitF16 x{load_next(at, bytes)};
  from = reinterpret_cast<const SplitF16*>(at);
  return x;
}
template <>
inline constexpr int operand_bytes<SplitF16> = operand_bytes_of(Format::f16x3);
// Powers of two: a block scales its inputs by `input`; `undo` undoes that and the scale of weights.
struct SplitScales {
  float input, undo;
};
__device__ inline SplitScales& split_scales() {
  return *reinterpret_cast<SplitScales*>(shared_words<static_bytes / 8>() + barrier_bytes / 8);  // after the barriers
}
// What producers and packing read elements as.
template <class E, Format format>
struct InputOf {
  using Type = E;
};
template <>
struct InputOf<float, Format::f16> {
  using Type = Tf32AsF16;
};
template <>
struct InputOf<float, Format::tf32x3> {
  using Type = SplitTf32;
};
template <>
struct InputOf<float, Format::f16x3> {
  using Type = SplitF16;
};
// Parts of an element in a row, and bytes of each.
template <class E>
inline constexpr int operand_parts = std::is_same_v<E, SplitTf32> || std::is_same_v<E, SplitF16> ? 2 : 1;
template <class E>
inline constexpr int part_bytes = operand_bytes<E> / operand_parts<E>;

// 16 bytes of one part. The low part of an infinity is NaN; mend_split_sums() recomputes such sums
// (mainloop/phases.cuh).
__device__ inline uint4 split_vector(const SplitTf32* x, bool low) {
  unsigned bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits[i] = tf32_bits(x[i].value);
    if (low) bits[i] = tf32_bits(x[i].value - __uint_as_float(bits[i]));
  }
  return {bits[0], bits[1], bits[2], bits[3]};
}
__device__ inline uint4 split_vector(const SplitF16* x, bool low) {
  unsigned bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float first = x[2 * i].value, second = x[2 * i + 1].value;
    bits[i] = half_pair(first, second);
    if (low) {
      const auto high = [&](unsigned half) { return to_real(convt_f16{static_cast<std::uint16_t>(half)}); };
      bits[i] = half_pair(first - high(bits[i] & 0xffff), second - high(bits[i] >> 16));
    }
  }
  return {bits[0], bits[1], bits[2], bits[3]};
}
__device__ inline uint4 rounded_vector(const SplitTf32* x) { return split_vector(x, false); }
__device__ inline uint4 rounded_vector(const SplitF16* x) { return split_vector(x, false); }
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
__device__ inline float rounded_value(SplitTf32 x) { return x.value; }
template <class E>
__device__ float rounded_value(E x) {
  return to_real(x);
}

// The swizzled index of a 16-byte unit in its row. Matrix instructions swizzle rows of 64 and 128 bytes by address, so
// that 8 neighbouring rows cover all banks.
__device__ inline int swizzled_unit(int row, int unit, int row_bytes) {
  return unit ^ (row_bytes == 128 ? row % 8 : row / 2 % 4);
}
// Swizzles an address in the duplicated halo, whose rows of 128 bytes are two pixels.
__device__ inline int swizzle_duplicated(int address) { return address ^ (address >> 3 & 0x70); }
// The offset of a weight in its tile, in elements.
template <class E>
__device__ int weight_offset(int column, int channel, int row_bytes) {
  constexpr int each = 16 / static_cast<int>(sizeof(E));
  return column * (row_bytes / static_cast<int>(sizeof(E))) + swizzled_unit(column, channel / each, row_bytes) * each +
         channel % each;
}
// A weight of a packed tile.
template <class E>
__device__ float packed_weight(const unsigned char* tile, int column, int channel, int row_bytes) {
  if constexpr (std::is_same_v<E, SplitTf32>) {
    const auto* const parts = reinterpret_cast<const float*>(tile);
    return parts[weight_offset<float>(column, channel, row_bytes)] +
           parts[weight_offset<float>(column, channel + row_bytes / operand_bytes<SplitTf32>, row_bytes)];
  } else {
    return rounded_value(reinterpret_cast<const E*>(tile)[weight_offset<E>(column, channel, row_bytes)]);
  }
}

}  // namespace convt::core::cuda::sm90
