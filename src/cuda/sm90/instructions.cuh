// SPDX-License-Identifier: Apache-2.0
// Hopper's instructions as functions. The host model of the hardware has the same functions (tests/hopper_model).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/instructions.cuh"
#include "cuda/sm90/operand.cuh"

namespace convt::core::cuda::sm90 {

// Makes a value opaque: the compiler recomputes what depends on it instead of keeping that in registers.
__device__ inline void opaque(int& value) { asm volatile("" : "+r"(value)); }
__device__ inline void opaque(std::int64_t& value) { asm volatile("" : "+l"(value)); }
__device__ inline void opaque(float& value) { asm volatile("" : "+f"(value)::"memory"); }

// Keeps an array in memory, to save registers.
template <class T, int count>
__device__ void keep_in_memory(T (&values)[count]) {
  asm volatile("" ::"l"(&values[0]) : "memory");
}

// from + count*step elements in global memory; step and count are below 2^32. This is one instruction, IMAD.WIDE.U32;
// the compiler makes three of a 64-bit product and sum.
template <class E>
__device__ E* ahead(E* from, std::uint32_t step, std::uint32_t count) {
  const auto address = reinterpret_cast<std::uint64_t>(from);
  E* to;
  if (count == 0)
    asm volatile("mov.b64 %0, {%1, %2};"
                 : "=l"(to)
                 : "r"(static_cast<std::uint32_t>(address)), "r"(static_cast<std::uint32_t>(address >> 32)));
  else
    asm volatile(
        "{\n.reg .u32 low, high;\n"
        "mad.lo.cc.u32 low, %3, %4, %1;\n"
        "madc.hi.u32 high, %3, %4, %2;\n"
        "mov.b64 %0, {low, high};\n}"
        : "=l"(to)
        : "r"(static_cast<std::uint32_t>(address)), "r"(static_cast<std::uint32_t>(address >> 32)), "r"(step),
          "r"(count * static_cast<std::uint32_t>(sizeof(E))));
  __builtin_assume(__isGlobal(to));
  return to;
}

// Brings a sector of global memory to the L2 cache.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" : : "l"(from)); }

// An undefined value, to be overwritten.
__device__ inline void leave_undefined(float& value) { asm volatile("" : "=f"(value)); }

// Rounds to the nearest tf32; matrix instructions would truncate.
__device__ inline unsigned tf32_bits(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// Two floats as f16, to nearest, the first one in the low half.
__device__ inline unsigned half_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
// The larger magnitudes of two pairs of f16, element by element; sign bits are undefined. NaN is ignored.
__device__ inline unsigned greater_sizes(unsigned x, unsigned than) {
  unsigned greater;
  asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(greater) : "r"(x), "r"(than));
  return greater;
}
// The largest of a warp's floats. They must not be negative: such floats are ordered as their bits. All threads call
// it.
__device__ inline float greatest_of_warp(float x) {
  return __uint_as_float(__reduce_max_sync(~0U, __float_as_uint(x)));
}

// In a kernel that was launched early: waits until the previous kernel on the stream has ended, and its writes are
// visible.
__device__ inline void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Static shared memory.
template <int count>
__device__ std::uint64_t* shared_words() {
  __shared__ alignas(8) std::uint64_t words[count];
  return words;
}
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Barriers in shared memory, by address. A wait for parity 0 ends when the first phase has completed.
__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives several times at once.
__device__ inline void arrive_for(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\nbra again;\n"
      "over:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Whether the phase of this parity has completed. It may suspend the thread for a while.
__device__ inline bool try_pass(std::uint32_t barrier, int parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred passed;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 passed, [%1], %2;\n"
      "selp.u32 %0, 1, 0, passed;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// Waits. All threads of a warp call it and leave it converged, so that uniform values stay in uniform registers.
__device__ inline void wait_converged(std::uint32_t barrier, int parity) {
  while (!__all_sync(~0U, try_pass(barrier, parity))) {
  }
}

// Loads an input, which is read about once, and advances the pointer. It is volatile, so that the compiler neither
// reuses an earlier value nor computes many addresses before the first load.
__device__ inline float load_next(const float*& from, std::int64_t bytes) {
  float value;
  asm volatile("ld.global.nc.L2::128B.f32 %0, [%1];\nadd.s64 %1, %1, %2;" : "=f"(value), "+l"(from) : "l"(bytes));
  return value;
}
template <class E>
__device__ E load_next(const E*& from, std::int64_t bytes) {
  static_assert(sizeof(E) == 2);
  unsigned short bits;
  asm volatile("ld.global.nc.L2::128B.u16 %0, [%1];\nadd.s64 %1, %1, %2;" : "=h"(bits), "+l"(from) : "l"(bytes));
  return E{bits};
}

// Two neighbouring elements of 16 bits, the first one in the low half.
struct PixelPair {
  unsigned bits;
};
__device__ inline PixelPair load_next(const PixelPair*& from, std::int64_t bytes) {
  PixelPair pair;
  asm volatile("ld.global.nc.L2::128B.u32 %0, [%1];\nadd.s64 %1, %1, %2;" : "=r"(pair.bits), "+l"(from) : "l"(bytes));
  return pair;
}

// Stores a result of 2 to 16 bytes. It is not read again, so the L2 cache may evict it first.
template <class T>
__device__ void store_result(T* to, const T& result) {
  using Bits = std::conditional_t<
      sizeof(T) == 2, unsigned short,
      std::conditional_t<sizeof(T) == 4, unsigned, std::conditional_t<sizeof(T) == 8, uint2, uint4>>>;
  static_assert(sizeof(Bits) == sizeof(T));
  Bits bits;
  memcpy(&bits, &result, sizeof bits);
  __stcs(reinterpret_cast<Bits*>(to), bits);
}

// Stores four 8x8 matrices of 16-bit elements to shared memory, transposed. A lane has two neighbours of each matrix,
// in row lane / 4 and from column lane % 4 * 2 on. `to` of lane 8*b + c receives column c of matrix b.
__device__ inline void store_transposed(void* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// Copies a multiple of 16 bytes to shared memory; the barrier counts them.
__device__ inline void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// Makes this thread's stores to shared memory visible to matrix instructions.
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int registers>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

__device__ inline void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all but the last `pending` groups of products. Only the order of volatile statements ties sums to the wait;
// ptxas reports if it has to serialise products to keep sums right (tools/strict-wgmma).
template <int pending>
__device__ void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

#define CONVT_R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CONVT_R16(i) CONVT_R4(i), CONVT_R4(i + 4), CONVT_R4(i + 8), CONVT_R4(i + 12)
#define CONVT_S4 "{%0,%1,%2,%3"
#define CONVT_S12 CONVT_S4 ",%4,%5,%6,%7,%8,%9,%10,%11"
#define CONVT_S16 CONVT_S12 ",%12,%13,%14,%15"
#define CONVT_S32 CONVT_S16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CONVT_S36 CONVT_S32 ",%32,%33,%34,%35"
#define CONVT_S48 CONVT_S36 ",%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define CONVT_S64 CONVT_S48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define CONVT_MULTIPLY(shape, types, sums, a_at, b_at, add_at, tail, ...)                                 \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_at ", 0;\nwgmma.mma_async.sync.aligned." shape \
               ".f32." types " " sums "}, " a_at ", " b_at ", add, 1, 1" tail ";\n}"                      \
               : __VA_ARGS__                                                                              \
               : "l"(a), "l"(b), "r"(add))
#define CONVT_MULTIPLY_ALL(n, sums, a_at, b_at, add_at, ...)                                    \
  if constexpr (format == Format::tf32)                                                         \
    CONVT_MULTIPLY("m64n" n "k8", "tf32.tf32", sums, a_at, b_at, add_at, "", __VA_ARGS__);      \
  else if constexpr (format == Format::f16)                                                     \
    CONVT_MULTIPLY("m64n" n "k16", "f16.f16", sums, a_at, b_at, add_at, ", 0, 0", __VA_ARGS__); \
  else                                                                                          \
    CONVT_MULTIPLY("m64n" n "k16", "bf16.bf16", sums, a_at, b_at, add_at, ", 0, 0", __VA_ARGS__)

// 64 x n sums = (64 x 32 bytes of a) * (n x 32 bytes of b), added to the previous sums unless `add` is 0. Thread t of
// the warpgroup has, in row t/4 % 8 + t/32 * 16, d[4*i] and d[4*i + 1], columns 8*i + t%4*2 and the next; in the row 8
// below, d[4*i + 2] and d[4*i + 3].
template <Format format, int n>
__device__ void multiply(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add = 1) {
  static_assert(n == 8 || n == 24 || n == 32 || n == 64 || n == 72 || n == 96 || n == 128);
  if constexpr (n == 8) {
    CONVT_MULTIPLY_ALL("8", CONVT_S4, "%4", "%5", "%6", CONVT_R4(0));
  } else if constexpr (n == 24) {
    CONVT_MULTIPLY_ALL("24", CONVT_S12, "%12", "%13", "%14", CONVT_R4(0), CONVT_R4(4), CONVT_R4(8));
  } else if constexpr (n == 32) {
    CONVT_MULTIPLY_ALL("32", CONVT_S16, "%16", "%17", "%18", CONVT_R16(0));
  } else if constexpr (n == 72) {
    CONVT_MULTIPLY_ALL("72", CONVT_S36, "%36", "%37", "%38", CONVT_R16(0), CONVT_R16(16), CONVT_R4(32));
  } else if constexpr (n == 96) {
    CONVT_MULTIPLY_ALL("96", CONVT_S48, "%48", "%49", "%50", CONVT_R16(0), CONVT_R16(16), CONVT_R16(32));
  } else if constexpr (n == 128) {
    CONVT_MULTIPLY_ALL("128", CONVT_S64, "%64", "%65", "%66", CONVT_R16(0), CONVT_R16(16), CONVT_R16(32),
                       CONVT_R16(48));
  } else {
    CONVT_MULTIPLY_ALL("64", CONVT_S32, "%32", "%33", "%34", CONVT_R16(0), CONVT_R16(16));
  }
}

#undef CONVT_R4
#undef CONVT_R16
#undef CONVT_S4
#undef CONVT_S12
#undef CONVT_S16
#undef CONVT_S32
#undef CONVT_S36
#undef CONVT_S48
#undef CONVT_S64
#undef CONVT_MULTIPLY
#undef CONVT_MULTIPLY_ALL

}  // namespace convt::core::cuda::sm90
