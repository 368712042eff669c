// SPDX-License-Identifier: Apache-2.0
// What src/cuda/sm90/instructions.cuh has, on the host.
#pragma once

#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda/common/instructions.cuh"
#include "cuda/sm90/operand.cuh"
#include "hopper_model/machine.hpp"

namespace convt::core::cuda::sm90 {

inline void opaque(int&) {}
inline void opaque(std::int64_t&) {}
inline void opaque(float&) {}
template <class T, int count>
void keep_in_memory(T (&)[count]) {}

template <class E>
E* ahead(E* from, std::uint32_t step, std::uint32_t count) {
  return from + static_cast<std::uint64_t>(step) * count;
}

inline unsigned char* ahead_by(unsigned char* from, std::uint32_t step, std::uint32_t count) {
  return from + static_cast<std::uint64_t>(step) * count;
}

inline void prefetch(const void*) {}

inline void leave_undefined(float& value) { value = NAN; }  // no number would tell who used it

// Ties go away from 0. Infinity and NaN stay what they are.
inline unsigned tf32_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000U) & 0xffffe000U : bits | (std::isnan(x) ? 0x7fffe000U : 0U);
}
inline unsigned half_pair(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
inline unsigned greater_sizes(unsigned x, unsigned than) {
  unsigned greater = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const unsigned a = x >> shift & 0x7fff, b = than >> shift & 0x7fff;  // in the order of numbers, and NaN behind
    greater |= (a > 0x7c00 ? b : b > 0x7c00 || a > b ? a : b) << shift;
  }
  return greater;
}
inline float greatest_of_warp(float x) {
  for (int apart = 1; apart < hopper_model::warp_threads; apart *= 2) x = std::fmax(x, __shfl_xor_sync(~0U, x, apart));
  return x;
}
inline void wait_for_kernel_before() {}  // kernels run one after the other

template <int count>
std::uint64_t* shared_words() {
  return hopper_model::static_words(count);
}
inline std::uint32_t shared_address(const void* pointer) { return hopper_model::address_of(pointer); }

inline void init_barrier(std::uint32_t barrier, int arrivals) { hopper_model::init_barrier(barrier, arrivals); }
inline void fence_barrier_init() {}
inline void arrive(std::uint32_t barrier) { hopper_model::arrive(barrier); }
inline void arrive_for(std::uint32_t barrier, int arrivals) {
  for (int i = 0; i < arrivals; ++i) hopper_model::arrive(barrier);
}
inline void arrive_expecting(std::uint32_t barrier, int bytes) { hopper_model::arrive(barrier, bytes); }
inline void wait(std::uint32_t barrier, int parity) { hopper_model::wait(barrier, parity); }
inline void wait_converged(std::uint32_t barrier, int parity) {
  hopper_model::wait(barrier, parity);
  hopper_model::sync_warp();
}

template <class E>
E load_next(const E*& from, std::int64_t bytes) {
  const E value = *from;
  from += bytes / static_cast<std::int64_t>(sizeof(E));
  return value;
}

struct PixelPair {
  unsigned bits;
};
inline PixelPair load_next(const PixelPair*& from, std::int64_t bytes) {
  const PixelPair pair{hopper_model::load_word(from)};
  from += bytes / static_cast<std::int64_t>(sizeof pair);
  return pair;
}

template <class T>
void store_result(T* to, const T& result) {
  *to = result;
}

inline void store_transposed(void* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned blocks[] = {a, b, c, d};
  const int lane = static_cast<int>(threadIdx.x % hopper_model::warp_threads), column = lane % 8;
  for (int block = 0; block < 4; ++block)
    for (int row = 0; row < 8; ++row) {
      const std::uint64_t pair = hopper_model::exchange(blocks[block], row * 4 + column / 2);
      if (block == lane / 8) static_cast<std::uint16_t*>(to)[row] = static_cast<std::uint16_t>(pair >> column % 2 * 16);
    }
}

inline void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  hopper_model::copy_bulk(to, from, bytes, barrier);
}
inline void fence_async() { hopper_model::fence_async(); }

template <int registers>
void take_registers() {}
template <int registers>
void give_registers() {}

inline void multiply_begin() { hopper_model::sync_warp(); }  // .sync.aligned: lanes go on together
inline void multiply_commit() { hopper_model::commit(); }
template <int pending>
void multiply_wait() {
  hopper_model::wait_products(pending);
}

template <Format format, int n>
void multiply(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add = 1) {
  constexpr auto element = format == Format::tf32  ? hopper_model::Element::tf32
                           : format == Format::f16 ? hopper_model::Element::f16
                                                   : hopper_model::Element::bf16;
  hopper_model::multiply(element, n, d, a, b, add != 0);
}

}  // namespace convt::core::cuda::sm90
