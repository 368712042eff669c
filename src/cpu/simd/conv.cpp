// SPDX-License-Identifier: Apache-2.0
// The convolution's kernels for one instruction set and type.
#include "cpu/simd/target.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cpu/simd/gemm-inl.hpp"
#include "cpu/simd/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {

#if HWY_TARGET == HWY_AVX3
// Elements of a and b in turns: with 512 bits, Highway's own takes several shuffles for each half.
template <class V>
struct Pairs {
  V low, high;
};
template <class T>
HWY_INLINE Pairs<Values<T>> pairs(Values<T> a, Values<T> b) {
  using Raw = typename Values<T>::Raw;
  if constexpr (sizeof(T) == sizeof(float)) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    return {Values<T>(Raw{_mm512_permutex2var_ps(a.raw.raw, low, b.raw.raw)}),
            Values<T>(Raw{_mm512_permutex2var_ps(a.raw.raw, high, b.raw.raw)})};
  } else {
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
    return {Values<T>(Raw{_mm512_permutex2var_pd(a.raw.raw, low, b.raw.raw)}),
            Values<T>(Raw{_mm512_permutex2var_pd(a.raw.raw, high, b.raw.raw)})};
  }
}
#endif

template <class T, int P>
HWY_INLINE void store_interleaved(const T* const* from, std::int64_t x, T* to) {
  const hn::ScalableTag<T> d;
  const auto v = [&](int p) HWY_ATTR { return hn::LoadU(d, from[p] + x); };
  if constexpr (P == 1) hn::StoreU(v(0), d, to);
#if HWY_TARGET == HWY_AVX3
  if constexpr (P == 2) {
    const auto [low, high] = pairs(Values<T>(v(0)), Values<T>(v(1)));
    low.store(to);
    high.store(to + Values<T>::lanes);
  }
#else
  if constexpr (P == 2) hn::StoreInterleaved2(v(0), v(1), d, to);
#endif
  if constexpr (P == 3) hn::StoreInterleaved3(v(0), v(1), v(2), d, to);
  if constexpr (P == 4) hn::StoreInterleaved4(v(0), v(1), v(2), v(3), d, to);
}

// The end of a row, less than P vectors: from registers where it can be, or by way of the scratch memory.
template <class T, int P>
HWY_INLINE void store_rest(const T* const* from, std::int64_t count, T* scratch, T* to) {
  using V = Values<T>;
  if constexpr (P == 1) return Part<T>(count).store(V::load(from[0]), to);
#if HWY_TARGET == HWY_AVX3
  if constexpr (P == 2) {
    const auto [low, high] = pairs(V::load(from[0]), V::load(from[1]));
    Part<T>(std::min(count, V::lanes)).store(low, to);
    if (count > V::lanes) Part<T>(count - V::lanes).store(high, to + V::lanes);
    return;
  }
#endif
  store_interleaved<T, P>(from, 0, scratch);
  for (std::int64_t o = 0; o < count; o += V::lanes)
    Part<T>(std::min(count - o, V::lanes)).store(V::load(scratch + o), to + o);
}

template <class T, int P>
HWY_INLINE void interleave_channel(const Interleave<T>& i, const T* const* first, T* to) {
  constexpr std::int64_t lanes = Values<T>::lanes;
  const std::int64_t whole = i.width / (lanes * P) * lanes, rest = i.width - whole * P;
  const T* from[P];
  std::copy_n(first, P, from);
  for (std::int64_t y = 0; y < i.rows; ++y, to += i.to_step) {
    for (std::int64_t x = 0; x < whole; x += lanes) store_interleaved<T, P>(from, x, to + x * P);
    const T* behind[P];
    for (int p = 0; p < P; ++p) behind[p] = from[p] + whole;
    if (rest > 0) store_rest<T, P>(behind, rest, i.scratch, to + whole * P);
    for (const T*& one : from) one += i.from_step;
  }
}

template <class T, int P>
void interleave_rows(const Interleave<T>& i) {
  const T* from[P];
  for (std::int64_t p = 0; p < P; ++p)
    from[p] = i.from + (i.lead + p) % P * i.phase_step + (i.common ? (i.lead + p) / P : 0);
  for (std::int64_t c = 0; c < i.channels; ++c) {
    interleave_channel<T, P>(i, from, i.to + c * i.to_channel);
    for (const T*& one : from) one += i.from_channel;
  }
}

// A row of more phases: matrices of (phase, position), transposed. The first outputs are of phases from `lead` on, then
// come those before it.
template <class T>
void interleave_many(const Interleave<T>& i, const T* from, T* to) {
  const std::int64_t whole = i.width / i.phases, behind = i.phases - i.lead;
  const T* const wrapped = from + (i.common ? 1 : 0);
  from += i.lead * i.phase_step;
  transpose<T, T, T>({from, i.phase_step}, {to, i.phases}, behind, whole);
  transpose<T, T, T>({wrapped, i.phase_step}, {to + behind, i.phases}, i.lead, whole);
  for (std::int64_t x = whole * i.phases, p = 0; x < i.width; ++x, ++p)
    to[x] = p < behind ? from[p * i.phase_step + whole] : wrapped[(p - behind) * i.phase_step + whole];
}

// Rows too short for vectors.
inline constexpr std::int64_t short_row = 8;
template <class T>
void interleave_short(const Interleave<T>& i) {
  const T* from[short_row];
  for (std::int64_t x = 0; x < i.width; ++x)
    from[x] = i.from + (i.lead + x) % i.phases * i.phase_step + (i.common ? (i.lead + x) / i.phases : x / i.phases);
  for (std::int64_t c = 0; c < i.channels; ++c)
    for (std::int64_t y = 0; y < i.rows; ++y) {
      T* const to = i.to + c * i.to_channel + y * i.to_step;
      for (std::int64_t x = 0; x < i.width; ++x) to[x] = from[x][c * i.from_channel + y * i.from_step];
    }
}

template <class T>
void interleave_cached(const Interleave<T>& i) {
  if (i.width <= short_row) return interleave_short(i);
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
  for (std::int64_t c = 0; c < i.channels; ++c)
    for (std::int64_t y = 0; y < i.rows; ++y)
      interleave_many(i, i.from + c * i.from_channel + y * i.from_step, i.to + c * i.to_channel + y * i.to_step);
}

// Rows of several phases are made in the first-level cache.
inline constexpr std::int64_t longest_streamed = 2048;
template <class T>
void interleave_streamed(const Interleave<T>& i) {
  const RowStreamer<T> stream{i.width};
  T made[longest_streamed];
  Interleave<T> row = i;
  row.channels = row.rows = 1;
  row.to = made;
  for (std::int64_t c = 0; c < i.channels; ++c)
    for (std::int64_t y = 0; y < i.rows; ++y) {
      row.from = i.from + c * i.from_channel + y * i.from_step;
      if (i.phases > 1) interleave_cached(row);
      stream(i.phases > 1 ? made : row.from, i.to + c * i.to_channel + y * i.to_step);
    }
}

template <class T>
void interleave(const Interleave<T>& i) {
  const bool fits = i.width > short_row && (i.phases == 1 || i.width <= longest_streamed);
  i.stream&& fits ? interleave_streamed(i) : interleave_cached(i);
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

// Infinities and NaN stay in a sum. So may large numbers: then each is looked at.
template <class T>
HWY_NOINLINE bool all_finite(const PackTaps<T>& p) {
  for (std::int64_t c = 0; c < p.channels; ++c)
    for (std::int64_t i = 0; i < p.rows * p.taps; ++i)
      if (!std::isfinite(p.from[c * p.channel_step + i])) return false;
  return true;
}

// Squares of (row, tap) are transposed: rows lie `taps` apart, the taps' places anywhere. A channel's sum is taken
// while it is in the first-level cache.
template <class T>
bool pack_taps(const PackTaps<T>& p) {
  using V = Values<T>;
  const T* from = p.from;
  V sum(0.0), other(0.0);
  for (std::int64_t c = 0; c < p.channels; ++c, from += p.channel_step) {
    std::int64_t t = 0;
    // Channels lie too far apart for hardware to see the next one coming.
    constexpr std::int64_t line = 64 / sizeof(T), ahead = 8;
    if (c + ahead < p.channels)
      for (std::int64_t i = 0; i < p.rows * p.taps; i += line) hwy::Prefetch(from + ahead * p.channel_step + i);
#if HWY_TARGET != HWY_SCALAR
    if constexpr (square<T> == 4) {
      for (; t + 4 <= p.taps; t += 4) {
        std::int64_t r = 0;
        for (; r + 4 <= p.rows; r += 4) {
          alignas(16) T block[16];
          transpose_square<T, T, T>({from + r * p.taps + t, p.taps}, {block, 4});
          for (std::int64_t i = 0; i < 4; ++i) {
            const hn::FixedTag<T, 4> tag;
            hn::StoreU(hn::Load(tag, block + 4 * i), tag, p.places[t + i].at + c * p.places[t + i].step + r);
          }
        }
        for (; r < p.rows; ++r)
          for (std::int64_t i = 0; i < 4; ++i)
            p.places[t + i].at[c * p.places[t + i].step + r] = from[r * p.taps + t + i];
      }
    }
#endif
    for (; t < p.taps; ++t) {
      T* const to = p.places[t].at + c * p.places[t].step;
      for (std::int64_t r = 0; r < p.rows; ++r) to[r] = from[r * p.taps + t];
    }
    std::int64_t i = 0;
    const std::int64_t count = p.rows * p.taps;
    for (; i + 2 * V::lanes <= count; i += 2 * V::lanes) {
      sum = sum + V::load(from + i);
      other = other + V::load(from + i + V::lanes);
    }
    for (; i + V::lanes <= count; i += V::lanes) sum = sum + V::load(from + i);
    if (i < count) other = other + Part<T>(count - i).load(from + i);
  }
  T lanes[V::lanes];
  (sum + other).store(lanes);
  T total = 0;
  for (const T lane : lanes) total += lane;
  return std::isfinite(total) || all_finite(p);
}

template <class T>
const ConvKernels<T>& conv_kernels();

template <>
const ConvKernels<CONVT_REAL>& conv_kernels<CONVT_REAL>() {
  using T = CONVT_REAL;
  static constexpr ConvKernels<T> table = [] {
    ConvKernels<T> t{static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>())),
                     most_rows,
                     {},
                     gemm<T>,
                     interleave<T>,
                     gather<T>,
                     pack_taps<T>,
                     hwy::FlushStream};
    for (int rows = 1; rows <= most_rows; ++rows) t.most_vectors[rows] = most_vectors(rows);
    return t;
  }();
  return table;
}

}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
