// SPDX-License-Identifier: Apache-2.0
// Slots of a span on a device. A slot is 16 bytes of contiguous elements of one image. It is loaded as it is, then its
// elements go through the chain and are stored. Elements at its ends may belong to something else.
#pragma once

#include <cstring>

#include "cuda/chain/real.cuh"
#include "cuda/chain/span.hpp"
#include "cuda/chain/span_sizes.hpp"
#include "cuda/chain/strip.cuh"

namespace convt::core::cuda {

using Raw = uint4;  // a slot's bytes

template <class E>
inline constexpr int slot_values = span_bytes / static_cast<int>(sizeof(E));
inline constexpr int most_slot_values = span_bytes / 2;

// The position of a slot. Only its elements [lo, hi) are valid. pixel: of element 0; it may be negative.
struct Slot {
  int n, c, pixel, lo, hi;
  int apart = 1;                // pixels from one element to the next
  int next = most_slot_values;  // elements from this one on belong to the next channel
};

// Loads or stores the valid elements of a slot one by one. Not inlined, as few slots need it.
template <int N, class T>
__device__ __noinline__ void load_some(const void* from, std::int64_t index, convt_dtype dtype, const Slot at, T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (at.lo <= k && k < at.hi) x[k] = load<T>(from, index + std::int64_t{k} * at.apart, dtype);
}
template <int N, class T>
__device__ __noinline__ void store_some(void* to, std::int64_t index, convt_dtype dtype, const Slot at, const T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (at.lo <= k && k < at.hi) store(to, index + std::int64_t{k} * at.apart, dtype, x[k]);
}

// Bytes that an instruction loads or stores of N neighbours of type E; 0: they are single elements.
template <class E, int N>
inline constexpr int unit_bytes = N * sizeof(E) >= span_bytes ? span_bytes
                                  : N * sizeof(E) == 8        ? 8
                                                              : 0;
template <class E, int N>
__device__ bool is_whole(const E* data, const Slot& at) {
  return unit_bytes<E, N> != 0 && at.apart == 1 && at.lo == 0 && at.hi == N &&
         reinterpret_cast<std::uintptr_t>(data) % (unit_bytes<E, N> != 0 ? unit_bytes<E, N> : 1) == 0;
}
// Loads N neighbours, unless their number or address does not fit an instruction.
template <class E, class T, int N>
__device__ bool load_run(const E* from, const Slot& at, T (&x)[N]) {
  if constexpr (unit_bytes<E, N> != 0) {
    if (!is_whole<E, N>(from, at)) return false;
    using Unit = std::conditional_t<unit_bytes<E, N> == 8, uint2, Raw>;
    constexpr int units = static_cast<int>(N * sizeof(E) / sizeof(Unit));
    E e[N];
#pragma unroll
    for (int i = 0; i < units; ++i) {
      const Unit raw = reinterpret_cast<const Unit*>(from)[i];
      std::memcpy(reinterpret_cast<char*>(&e) + i * sizeof raw, &raw, sizeof raw);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = static_cast<T>(to_real(e[k]));
    return true;
  }
  return false;
}
template <class T, int N>
__device__ void load_values(const void* from, std::int64_t index, convt_dtype dtype, const Slot& at, T (&x)[N]) {
  bool loaded = false;
  if constexpr (sizeof(T) == sizeof(double)) {
    if (dtype == CONVT_F32)
      loaded = load_run(static_cast<const float*>(from) + index, at, x);
    else
      loaded = load_run(static_cast<const double*>(from) + index, at, x);
  } else if (dtype == CONVT_F16) {
    loaded = load_run(static_cast<const convt_f16*>(from) + index, at, x);
  } else if (dtype == CONVT_BF16) {
    loaded = load_run(static_cast<const convt_bf16*>(from) + index, at, x);
  } else {
    loaded = load_run(static_cast<const float*>(from) + index, at, x);
  }
  if (loaded) return;
  T some[N] = {};
  load_some<N>(from, index, dtype, at, some);
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = some[k];
}

template <class E, class T, int N>
__device__ bool store_run(E* to, const Slot& at, const T (&x)[N]) {
  if constexpr (unit_bytes<E, N> != 0) {
    if (!is_whole<E, N>(to, at)) return false;
    using Unit = std::conditional_t<unit_bytes<E, N> == 8, uint2, Raw>;
    constexpr int units = static_cast<int>(N * sizeof(E) / sizeof(Unit));
    E e[N];
#pragma unroll
    for (int k = 0; k < N; ++k) store(e, k, dtype_of<E>, x[k]);
#pragma unroll
    for (int i = 0; i < units; ++i) {
      Unit raw;
      std::memcpy(&raw, reinterpret_cast<const char*>(&e) + i * sizeof raw, sizeof raw);
      reinterpret_cast<Unit*>(to)[i] = raw;
    }
    return true;
  }
  return false;
}
template <class T, int N>
__device__ void store_values(void* to, std::int64_t index, convt_dtype dtype, const Slot& at, const T (&x)[N]) {
  bool stored = false;
  if constexpr (sizeof(T) == sizeof(double))
    stored = store_run(static_cast<double*>(to) + index, at, x);
  else if (dtype == CONVT_F16)
    stored = store_run(static_cast<convt_f16*>(to) + index, at, x);
  else if (dtype == CONVT_BF16)
    stored = store_run(static_cast<convt_bf16*>(to) + index, at, x);
  else
    stored = store_run(static_cast<float*>(to) + index, at, x);
  if (stored) return;
  T some[N];
#pragma unroll
  for (int k = 0; k < N; ++k) some[k] = x[k];
  store_some<N>(to, index, dtype, at, some);
}

__device__ inline std::int64_t place_in(const SpanView& view, const Slot& at) {
  return at.n * view.n + at.c * view.c + (view.along ? at.pixel : 0);
}

// V is what ops compute in: double, or Real.
template <class V>
__device__ V value_of(std::conditional_t<std::is_same_v<V, double>, double, float> x) {
  if constexpr (std::is_same_v<V, double>)
    return x;
  else
    return V::of(x);
}
__device__ inline double plain(double x) { return x; }
template <bool precise>
__device__ float plain(Real<precise> value) {
  return value.x;
}
template <class E>
using ValueOf = std::conditional_t<sizeof(E) == sizeof(double), double, RealOf<E>>;

// Values in local memory. Functions that are called get their values there, so that callers need few registers.
template <class T, int M, int N>
struct Kept {
  T v[M * N];
  __device__ explicit Kept(const T (&x)[M][N]) {
#pragma unroll
    for (int i = 0; i < M * N; ++i) v[i] = x[i / N][i % N];
  }
  __device__ void give_back(T (&x)[M][N]) const {
#pragma unroll
    for (int i = 0; i < M * N; ++i) x[i / N][i % N] = v[i];
  }
};

// Applies an op to `count` values, which share the choice of the op. Not inlined, as there are many ops.
template <class V, int count, class T>
__device__ __noinline__ void apply_kept(int op, const void* params, T* x) {
  visit_in_registers<Pointwise>(op, params, [&](const auto& math) {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = plain(math.apply(value_of<V>(x[i])));
  });
}
template <class V, int count, class T>
__device__ __noinline__ void apply_kept(int op, const void* params, T* x, const T* other) {
  visit_in_registers<Combine>(op, params, [&](const auto& math) {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = plain(math.apply(value_of<V>(x[i]), value_of<V>(other[i])));
  });
}

// Applies an op to values of some slots. If there are many, ops that are short or common have their math here.
template <class V, class T, int M, int N>
__device__ void apply_op(const SpanStep& step, T (&x)[M][N]) {
  bool applied = false;
  if constexpr (M * N >= 8)
    visit_in_registers<Pointwise>(step.op, step.params.bytes, [&]<class Op>(const Op& from) {
      if constexpr (Unrolled<Op>) {
        const Op math = from;
#pragma unroll
        for (auto& slot : x)
#pragma unroll
          for (T& v : slot) v = plain(math.apply(value_of<V>(v)));
        applied = true;
      }
    });
  if (applied) return;
  Kept kept(x);
  apply_kept<V, M * N>(step.op, step.params.bytes, kept.v);
  kept.give_back(x);
}

__device__ inline double number_of(int op, const void* params) {
  double number = 0;
  visit<Combine>(op, params, [&](const auto& math) { number = math.term.number; });
  return number;
}

template <class V, class T, int N>
__device__ void combine(const SpanStep& step, const Slot& at, T (&own)[N]) {
  auto& x = reinterpret_cast<T(&)[1][N]>(own);
  T other[1][N] = {};
  if (step.data.data != nullptr && step.data.along) {
    load_values(step.data.data, place_in(step.data, at), step.data.dtype, at, other[0]);
  } else {
    const T one = step.data.data == nullptr ? static_cast<T>(number_of(step.op, step.params.bytes))
                                            : load<T>(step.data.data, place_in(step.data, at), step.data.dtype);
#pragma unroll
    for (T& v : other[0]) v = one;
  }
  bool applied = false;
  visit_in_registers<Combine>(step.op, step.params.bytes, [&]<class Op>(const Op& math) {
    if constexpr (LinearCombine<Op>) {
#pragma unroll
      for (int k = 0; k < N; ++k) own[k] = plain(math.apply(value_of<V>(own[k]), value_of<V>(other[0][k])));
      applied = true;
    }
  });
  if (applied) return;
  Kept kept(x), with(other);
  apply_kept<V, N>(step.op, step.params.bytes, kept.v, with.v);
  kept.give_back(x);
}

// The statistics of a norm's region.
template <class T>
struct Region {
  T centre, scale;
};
template <class T, int N>
__device__ void normalise(const SpanStep& step, const Slot& at, T (&x)[N]) {
  const std::int64_t first = at.n * step.data.n + at.c / step.channels_each * step.data.c;
  const auto *centre = static_cast<const T*>(step.data.data) + first,
             *scale = static_cast<const T*>(step.second) + first;
  const auto pixel_of = [&](int k) { return at.pixel + k * at.apart; };
  const int row = pixel_of(at.lo) / step.inner, last = pixel_of(at.hi - 1) / step.inner;
  const std::int64_t weights = at.c * step.weight_c + at.pixel - std::int64_t{row} * step.inner;
  if (row == last) {
    const Region<T> own{__ldcg(centre + row), __ldcg(scale + row)};
#pragma unroll
    for (T& v : x) v = ops_device::Norm{}.map(v, own.centre, own.scale);
    if (step.weight[0] == nullptr) return;
    T weight[N] = {}, bias[N] = {};
    load_values(step.weight[0], weights, step.data.dtype, at, weight);
    load_values(step.weight[1], weights, step.data.dtype, at, bias);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = x[k] * weight[k] + bias[k];
    return;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k < at.lo || k >= at.hi) continue;
    const int own = pixel_of(k) / step.inner;
    x[k] = ops_device::Norm{}.map(x[k], __ldcg(centre + own), __ldcg(scale + own));
    if (step.weight[0] == nullptr) continue;
    const std::int64_t inside = weights + pixel_of(k) - at.pixel - std::int64_t{own - row} * step.inner;
    x[k] = x[k] * load<T>(step.weight[0], inside, step.data.dtype) + load<T>(step.weight[1], inside, step.data.dtype);
  }
}

// The constants of a linear step for the channel of a slot's first elements, or for the next one.
template <class T>
struct LineOf {
  T a, b;
  __device__ LineOf(const SpanStep& step, int c)
      : a(static_cast<const T*>(step.data.data)[c]), b(static_cast<const T*>(step.second)[c]) {}
};
template <class T, int N>
__device__ void apply_line(const SpanStep& step, const Slot& at, T (&x)[N]) {
  const LineOf<T> line(step, at.c);
  if (at.next >= at.hi) {
#pragma unroll
    for (T& v : x) v = fma(line.a, v, line.b);
    return;
  }
  const LineOf<T> next(step, at.c + 1);
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = fma(k < at.next ? line.a : next.a, x[k], k < at.next ? line.b : next.b);
}

// Runs the steps from `first` on. V: what ops compute in. Slots that several channels share may only have steps for
// which takes_shared() is true.
template <class V, class T, int M, int N>
__device__ void run_steps(const SpanChain& chain, int first, const Slot (&at)[M], T (&x)[M][N]) {
#pragma unroll 1
  for (int s = first; s < chain.count; ++s) {
    const SpanStep& step = chain.steps[s];
    switch (step.kind) {
      case ChainStep::affine:
#pragma unroll
        for (int m = 0; m < M; ++m) apply_line(step, at[m], x[m]);
        break;
      case ChainStep::pointwise:
        apply_op<V>(step, x);
        break;
      case ChainStep::combine:
#pragma unroll
        for (int m = 0; m < M; ++m) combine<V>(step, at[m], x[m]);
        break;
      case ChainStep::map_space:
#pragma unroll
        for (int m = 0; m < M; ++m) normalise(step, at[m], x[m]);
        break;
      default:
        break;
    }
  }
}

// Whether run_steps() may take slots that two channels share: only constants of linear steps depend on the channel.
__device__ inline bool takes_shared(const SpanParams& p, int first) {
  bool takes = p.pixels >= most_slot_values && p.to.c == p.pixels;
  for (int s = first; s < p.chain.count; ++s) {
    const SpanStep& step = p.chain.steps[s];
    const bool dense = step.data.data == nullptr || (step.data.along && step.data.c == p.pixels);
    takes &= step.kind == ChainStep::combine ? dense : step.kind != ChainStep::map_space;
  }
  return takes;
}

// Finishes one element, from step `first` on.
template <class V, class T>
__device__ __noinline__ void finish_one(const SpanParams& p, int first, T value, const Slot at) {
  T x[1][1] = {{value}};
  run_steps<V>(p.chain, first, {at}, x);
  store(p.to.data, place_in(p.to, at), p.to.dtype, x[0][0]);
}

// The channel and pixel of element k of a slot, as a slot of one element.
__device__ inline Slot one_of(const SpanParams& p, const Slot& at, int k) {
  const int over = (at.pixel + k) / p.pixels;
  return {at.n, at.c + over, at.pixel + k - over * p.pixels, 0, 1};
}
__device__ inline bool is_shared(const SpanParams& p, const Slot& at) { return at.pixel + at.hi > p.pixels; }

// The slot whose element 0 is `pixel` pixels after the first pixel of channel c. Elements [lo, hi) are valid.
__device__ inline Slot slot_at(const SpanParams& p, int n, int c, int pixel, int lo, int hi) {
  const int first = pixel + lo;
  const int over = first < p.pixels ? 0 : static_cast<int>(static_cast<unsigned>(first) / p.pixels);
  return {n, c + over, pixel - over * p.pixels, lo, hi};
}

// A slot's elements as values.
template <class E, class T, int N>
__device__ void unpack(const Raw& raw, T (&x)[N]) {
  if constexpr (std::is_same_v<E, convt_bf16>) {
    const unsigned pairs[] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      x[2 * i] = __uint_as_float(pairs[i] << 16);
      x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000U);
    }
  } else if constexpr (std::is_same_v<E, convt_f16>) {
    __half2 pairs[N / 2];
    std::memcpy(&pairs, &raw, sizeof raw);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float2 two = __half22float2(pairs[i]);
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
  } else if constexpr (std::is_same_v<E, float>) {
    const unsigned bits[] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __uint_as_float(bits[i]);  // memcpy() would load single bytes
  } else {
    std::memcpy(&x, &raw, sizeof raw);
  }
}
// Values as a slot's elements, rounded to nearest.
template <class E, class T, int N>
__device__ Raw pack(const T (&x)[N]) {
  Raw raw;
  if constexpr (std::is_same_v<E, float>) {
    raw = {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
  } else if constexpr (std::is_same_v<E, T>) {
    std::memcpy(&raw, &x, sizeof raw);
  } else {
    std::conditional_t<std::is_same_v<E, convt_f16>, __half2, __nv_bfloat162> pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      if constexpr (std::is_same_v<E, convt_f16>)
        pairs[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
      else
        pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
    std::memcpy(&raw, &pairs, sizeof raw);
  }
  return raw;
}

// Loads a slot to shared memory, for the same thread, which must call wait_copies() before it reads the slot. Elements
// that are not valid are 0.
template <class E>
__device__ void load_slot(const SpanParams& p, const Slot& at, Raw* to) {
  constexpr int N = slot_values<E>;
  const E* const from = static_cast<const E*>(p.from.data) + place_in(p.from, at);
  const bool dense = p.from.c == p.pixels || !is_shared(p, at);
  if (p.from.along && dense && at.lo == 0 && at.hi == N && reinterpret_cast<std::uintptr_t>(from) % span_bytes == 0) {
    copy_16(to, from);
    return;
  }
  E* const e = reinterpret_cast<E*>(to);
#pragma unroll 1
  for (int k = 0; k < N; ++k)
    e[k] = at.lo <= k && k < at.hi ? static_cast<const E*>(p.from.data)[place_in(p.from, one_of(p, at, k))] : E{};
}

// The number of elements between `data` and the 16-byte boundary before it, at which the first slot begins.
template <class E>
__device__ int lead_elements(const void* data) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(data) % span_bytes / sizeof(E));
}

}  // namespace convt::core::cuda
