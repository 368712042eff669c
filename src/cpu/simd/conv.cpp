// SPDX-License-Identifier: Apache-2.0
// The convolution's kernels for one instruction set and type.
#include "cpu/simd/target.hpp"

#include <algorithm>
#include <cstddef>

#include "cpu/simd/gemm-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {

template <class T, int P>
HWY_INLINE void store_interleaved(const T* const* from, std::int64_t x, T* to) {
  const hn::ScalableTag<T> d;
  const auto v = [&](int p) HWY_ATTR { return hn::LoadU(d, from[p] + x); };
  if constexpr (P == 1) hn::StoreU(v(0), d, to);
  if constexpr (P == 2) hn::StoreInterleaved2(v(0), v(1), d, to);
  if constexpr (P == 3) hn::StoreInterleaved3(v(0), v(1), v(2), d, to);
  if constexpr (P == 4) hn::StoreInterleaved4(v(0), v(1), v(2), v(3), d, to);
}

// At most the first `count` lanes.
template <class T>
HWY_INLINE void store_first(hn::Vec<hn::ScalableTag<T>> v, std::int64_t count, T* to) {
  const hn::ScalableTag<T> d;
  if (count >= static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(v, d, to);
  else
    hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
}

// A row, in whole vectors; the last ones go by way of the scratch memory.
template <class T, int P>
void interleave_rows(const Interleave<T>& i) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const T* from[P];
  for (std::int64_t p = 0; p < P; ++p)
    from[p] = i.from + (i.lead + p) % P * i.phase_step + (i.common ? (i.lead + p) / P : 0);
  for (std::int64_t y = 0; y < i.rows; ++y) {
    T* to = i.to + y * i.to_step;
    std::int64_t x = 0;
    for (; (x + lanes) * P <= i.width; x += lanes) store_interleaved<T, P>(from, x, to + x * P);
    if (x * P < i.width) {
      store_interleaved<T, P>(from, x, i.scratch);
      for (std::int64_t o = x * P; o < i.width; o += lanes)
        store_first<T>(hn::LoadU(hn::ScalableTag<T>(), i.scratch + o - x * P), i.width - o, to + o);
    }
    for (const T*& one : from) one += i.from_step;
  }
}

template <class T>
void interleave(const Interleave<T>& i) {
  switch (i.phases) {
    case 1:
      return interleave_rows<T, 1>(i);
    case 2:
      return interleave_rows<T, 2>(i);
    case 3:
      return interleave_rows<T, 3>(i);
    case 4:
      return interleave_rows<T, 4>(i);
    default:
      break;
  }
  for (std::int64_t y = 0; y < i.rows; ++y)
    for (std::int64_t p = 0; p < std::min(i.phases, i.width); ++p) {
      const T* from =
          i.from + (i.lead + p) % i.phases * i.phase_step + (i.common ? (i.lead + p) / i.phases : 0) + y * i.from_step;
      T* to = i.to + y * i.to_step;
      for (std::int64_t x = p; x < i.width; x += i.phases) to[x] = *from++;
    }
}

template <class T>
void gather(const Gather<T>& g) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  T* HWY_RESTRICT to = g.to;
  for (std::int64_t i = 0; i < g.images; ++i)
    for (std::int64_t p = 0; p < g.planes; ++p) {
      const T* HWY_RESTRICT from = g.from + i * g.image_step + p * g.plane_step;
      for (std::int64_t y = 0; y < g.rows; ++y) {
        hn::StoreU(hn::LoadU(d, from), d, to);
        for (std::int64_t x = lanes; x < g.width; x += lanes) hn::StoreU(hn::LoadU(d, from + x), d, to + x);
        from += g.row_step;
        to += g.width;
      }
    }
}

template <class T>
const ConvKernels<T>& conv_kernels();

template <>
const ConvKernels<CONVT_REAL>& conv_kernels<CONVT_REAL>() {
  using T = CONVT_REAL;
  static const ConvKernels<T> table = [] {
    ConvKernels<T> t{
        static_cast<int>(hn::Lanes(hn::ScalableTag<T>())), most_rows, {}, gemm<T>, interleave<T>, gather<T>};
    for (int rows = 1; rows <= most_rows; ++rows) t.most_vectors[rows] = most_vectors(rows);
    return t;
  }();
  return table;
}

}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
