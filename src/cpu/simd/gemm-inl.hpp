// SPDX-License-Identifier: Apache-2.0
// The microkernel: rows of output by vectors of positions, accumulated in registers over the whole depth.
//
// Per step of depth it loads NV vectors of input, at any address, and broadcasts R weights: R*NV multiply-adds for
// NV + R loads. An unaligned vector of a cache line's size costs two loads, so that the loads take (2*NV + R)/2 cycles
// on a core with two load ports, and the multiply-adds R*NV/2 on one with two multipliers: 8x3 takes 12 cycles against
// 7, and has 24 independent sums, three times the 8 that two pipes of 4 cycles' latency need.
//
// Inputs are read in short pieces from all over the patch, which no hardware prefetcher sees coming: they are asked for
// a few steps of depth ahead, which was worth 6 % of the rate where the patch lies in the second-level cache. Asking in
// every second step is enough, since neighbouring taps read the same lines; in every step it cost 3 to 10 %, taking the
// load ports' time.
#include <hwy/cache_control.h>

#include <algorithm>

#include "cpu/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {

namespace hn = hwy::HWY_NAMESPACE;

#if defined(__clang__)
#define CONVT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CONVT_UNROLL _Pragma("GCC unroll 16")
#endif

// Registers: R*NV sums, NV inputs and a weight. AVX-512 and NEON have 32, the others 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int registers = 32, most_rows = 8;
#else
inline constexpr int registers = 16, most_rows = 6;
#endif
// More vectors than 8 would not hide more latency, even with one row.
constexpr int most_vectors(int rows) {
  const int fit = (registers - 1) / (rows + 1);
  return fit < 8 ? fit : 8;
}

template <class T, int R, int NV>
HWY_NOINLINE void block(const Gemm<T>& g, std::int64_t vector) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  T* HWY_RESTRICT c = g.c + vector * lanes;
  const T* x[NV];
  V sum[R][NV];
  CONVT_UNROLL
  for (int v = 0; v < NV; ++v) x[v] = g.x + g.starts[vector + v];
  CONVT_UNROLL
  for (int r = 0; r < R; ++r) {
    CONVT_UNROLL
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  const T* HWY_RESTRICT w = g.w;
  const std::int32_t* HWY_RESTRICT offset = g.offsets;
  const auto step = [&](std::int64_t k) HWY_ATTR {
    const std::ptrdiff_t here = offset[k];
    V in[NV];
    CONVT_UNROLL
    for (int v = 0; v < NV; ++v) in[v] = hn::LoadU(d, x[v] + here);
    CONVT_UNROLL
    for (int r = 0; r < R; ++r) {
      const V weight = hn::Set(d, w[r]);
      CONVT_UNROLL
      for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(weight, in[v], sum[r][v]);
    }
    w += R;
  };
  std::int64_t k = 0;
  for (; k + 2 <= g.depth; k += 2) {
    const std::ptrdiff_t ahead = offset[k + gemm_ahead];
    CONVT_UNROLL
    for (int v = 0; v < NV; ++v) hwy::Prefetch(x[v] + ahead);
    hwy::Prefetch(x[NV - 1] + ahead + lanes);
    step(k);
    step(k + 1);
  }
  if (k < g.depth) step(k);
  CONVT_UNROLL
  for (int r = 0; r < R; ++r) {
    CONVT_UNROLL
    for (int v = 0; v < NV; ++v) {
      T* const to = c + r * g.c_step + v * lanes;
      hn::StoreU(g.accumulate ? hn::Add(hn::LoadU(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

// The last vectors, fewer than a full block.
template <class T, int R, int NV>
void rest(const Gemm<T>& g, std::int64_t vector) {
  if constexpr (NV > 0) {
    if (g.vectors - vector == NV)
      block<T, R, NV>(g, vector);
    else
      rest<T, R, NV - 1>(g, vector);
  }
}

template <class T, int R>
void run_rows(const Gemm<T>& g) {
  constexpr int NV = most_vectors(R);
  std::int64_t vector = 0;
  for (; g.vectors - vector > NV + 1; vector += NV) block<T, R, NV>(g, vector);
  // One vector alone would leave the pipes half empty: two blocks share what is left of a block and one vector.
  if (g.vectors - vector == NV + 1) {
    block<T, R, (NV + 1) / 2>(g, vector);
    vector += (NV + 1) / 2;
  }
  rest<T, R, NV>(g, vector);
}

template <class T, int R = 1>
void gemm(const Gemm<T>& g) {
  if constexpr (R < most_rows) {
    if (g.rows != R) return gemm<T, R + 1>(g);
  }
  run_rows<T, R>(g);
}

}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
