// SPDX-License-Identifier: Apache-2.0
// Slots of a span on a device. A slot is 16 bytes of contiguous elements of one image. It is loaded as it is, then its
// elements go through the chain and are stored. Elements at its ends may belong to something else.
#pragma once

#include <cstring>

#include "cuda/chain/span.hpp"
#include "cuda/chain/span_sizes.hpp"
#include "cuda/chain/strip.cuh"

namespace convt::core::cuda {

using Raw = uint4;  // a slot's bytes

template <class E>
inline constexpr int slot_values = span_bytes / static_cast<int>(sizeof(E));

// The position of a slot. Only its elements [lo, hi) are valid. pixel: of element 0; it may be negative.
struct Slot {
  int n, c, pixel, lo, hi;
  int apart = 1;  // pixels from one element to the next
};

// Loads elements [lo, hi) at `from` into registers.
template <class E, class T, int N>
__device__ void load_run(const E* from, int lo, int hi, T (&x)[N]) {
  constexpr int bytes = N * static_cast<int>(sizeof(E)), unit = bytes < span_bytes ? 8 : span_bytes;
  if (bytes >= 8 && lo == 0 && hi == N && reinterpret_cast<std::uintptr_t>(from) % unit == 0) {
    E e[N];
    if constexpr (bytes == 8) {
      const uint2 raw = *reinterpret_cast<const uint2*>(from);
      std::memcpy(&e, &raw, sizeof raw);
    } else if constexpr (bytes > 8) {
#pragma unroll
      for (int i = 0; i < bytes / span_bytes; ++i) {
        const Raw raw = reinterpret_cast<const Raw*>(from)[i];
        std::memcpy(reinterpret_cast<char*>(&e) + i * span_bytes, &raw, sizeof raw);
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = static_cast<T>(to_real(e[k]));
    return;
  }
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (lo <= k && k < hi) x[k] = static_cast<T>(to_real(from[k]));
}
template <class T, int N>
__device__ void load_values(const void* from, std::int64_t index, convt_dtype dtype, const Slot& at, T (&x)[N]) {
  if (at.apart != 1) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (at.lo <= k && k < at.hi) x[k] = load<T>(from, index + std::int64_t{k} * at.apart, dtype);
    return;
  }
  if constexpr (sizeof(T) == sizeof(double)) {
    if (dtype == CONVT_F32)
      load_run(static_cast<const float*>(from) + index, at.lo, at.hi, x);
    else
      load_run(static_cast<const double*>(from) + index, at.lo, at.hi, x);
  } else if (dtype == CONVT_F16) {
    load_run(static_cast<const convt_f16*>(from) + index, at.lo, at.hi, x);
  } else if (dtype == CONVT_BF16) {
    load_run(static_cast<const convt_bf16*>(from) + index, at.lo, at.hi, x);
  } else {
    load_run(static_cast<const float*>(from) + index, at.lo, at.hi, x);
  }
}

template <class E, class T, int N>
__device__ void store_run(E* to, convt_dtype dtype, int lo, int hi, const T (&x)[N]) {
  constexpr int bytes = N * static_cast<int>(sizeof(E)), unit = bytes < span_bytes ? 8 : span_bytes;
  E e[N];
#pragma unroll
  for (int k = 0; k < N; ++k) store(e, k, dtype, x[k]);
  if (bytes >= 8 && lo == 0 && hi == N && reinterpret_cast<std::uintptr_t>(to) % unit == 0) {
    if constexpr (bytes == 8) {
      uint2 raw;
      std::memcpy(&raw, &e, sizeof raw);
      *reinterpret_cast<uint2*>(to) = raw;
    } else if constexpr (bytes > 8) {
#pragma unroll
      for (int i = 0; i < bytes / span_bytes; ++i) {
        Raw raw;
        std::memcpy(&raw, reinterpret_cast<const char*>(&e) + i * span_bytes, sizeof raw);
        reinterpret_cast<Raw*>(to)[i] = raw;
      }
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (lo <= k && k < hi) to[k] = e[k];
}
template <class T, int N>
__device__ void store_values(void* to, std::int64_t index, convt_dtype dtype, const Slot& at, const T (&x)[N]) {
  if (at.apart != 1) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (at.lo <= k && k < at.hi) store(to, index + std::int64_t{k} * at.apart, dtype, x[k]);
    return;
  }
  if constexpr (sizeof(T) == sizeof(double)) {
    store_run(static_cast<double*>(to) + index, CONVT_F64, at.lo, at.hi, x);
  } else if (dtype == CONVT_F16) {
    store_run(static_cast<convt_f16*>(to) + index, CONVT_F16, at.lo, at.hi, x);
  } else if (dtype == CONVT_BF16) {
    store_run(static_cast<convt_bf16*>(to) + index, CONVT_BF16, at.lo, at.hi, x);
  } else {
    store_run(static_cast<float*>(to) + index, CONVT_F32, at.lo, at.hi, x);
  }
}

__device__ inline std::int64_t place_in(const SpanView& view, const Slot& at) {
  return at.n * view.n + at.c * view.c + (view.along ? at.pixel : 0);
}

// Values that a function takes and returns in registers.
template <class T, int count>
struct Run {
  T v[count];
};
// Calls f on `count` values at a time.
template <int count, class T, int M, int N, class F>
__device__ void by_runs(T (&x)[M][N], F&& f) {
#pragma unroll
  for (int first = 0; first < M * N; first += count) {
    Run<T, count> run{};
#pragma unroll
    for (int k = 0; k < count && first + k < M * N; ++k) run.v[k] = x[(first + k) / N][(first + k) % N];
    run = f(run, first);
#pragma unroll
    for (int k = 0; k < count && first + k < M * N; ++k) x[(first + k) / N][(first + k) % N] = run.v[k];
  }
}

// Applies an op to `count` values, which share the choice of the op. Not inlined: all kernels of a file use one copy.
template <class T, int count>
__device__ __noinline__ Run<T, count> apply_run(int op, const void* params, Run<T, count> x) {
  visit<Pointwise>(op, params, [&](const auto& math) {
#pragma unroll
    for (T& v : x.v) v = math.apply(v);
  });
  return x;
}

template <class T>
__device__ __noinline__ Run<T, 4> apply_pair(int op, const void* params, Run<T, 4> x, Run<T, 4> other) {
  visit<Combine>(op, params, [&](const auto& math) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x.v[i] = math.apply(x.v[i], other.v[i]);
  });
  return x;
}
__device__ inline double number_of(int op, const void* params) {
  double number = 0;
  visit<Combine>(op, params, [&](const auto& math) { number = math.term.number; });
  return number;
}

template <class T, int N>
__device__ void combine(const SpanStep& step, const Slot& at, T (&own)[N]) {
  auto& x = reinterpret_cast<T(&)[1][N]>(own);
  T other[N] = {};
  if (step.data.data != nullptr && step.data.along) {
    load_values(step.data.data, place_in(step.data, at), step.data.dtype, at, other);
  } else {
    const T one = step.data.data == nullptr ? static_cast<T>(number_of(step.op, step.params.bytes))
                                            : load<T>(step.data.data, place_in(step.data, at), step.data.dtype);
#pragma unroll
    for (T& v : other) v = one;
  }
  by_runs<4>(x, [&](const Run<T, 4>& run, int first) {
    Run<T, 4> with{};
#pragma unroll
    for (int k = 0; k < 4 && first + k < N; ++k) with.v[k] = other[first + k];
    return apply_pair(step.op, step.params.bytes, run, with);
  });
}

// The statistics of a norm's region.
template <class T>
struct Region {
  T centre, scale;
};
template <class T, int N>
__device__ void normalise(const SpanStep& step, const Slot& at, const Region<T>* known, T (&x)[N]) {
  if (known != nullptr && step.weight[0] == nullptr) {
#pragma unroll
    for (T& v : x) v = ops_device::Norm{}.map(v, known->centre, known->scale);
    return;
  }
  const std::int64_t first = at.n * step.data.n + at.c / step.channels_each * step.data.c;
  const auto *centre = static_cast<const T*>(step.data.data) + first,
             *scale = static_cast<const T*>(step.second) + first;
  const auto pixel_of = [&](int k) { return at.pixel + k * at.apart; };
  const int row = pixel_of(at.lo) / step.inner, last = pixel_of(at.hi - 1) / step.inner;
  const std::int64_t weights = at.c * step.weight_c + at.pixel - std::int64_t{row} * step.inner;
  if (row == last) {
    const Region<T> own = known != nullptr ? *known : Region<T>{__ldcg(centre + row), __ldcg(scale + row)};
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

// Runs the chain on slots of one channel. known: see finish_slots().
template <class T, int M, int N>
__device__ void run_steps(const SpanChain& chain, const Slot (&at)[M], const Region<T>* known, T (&x)[M][N]) {
  constexpr int together = M * N > 4 ? 8 : 4;
  for (int s = 0; s < chain.count; ++s) {
    const SpanStep& step = chain.steps[s];
    switch (step.kind) {
      case ChainStep::affine: {
        const T a = static_cast<const T*>(step.data.data)[at[0].c], b = static_cast<const T*>(step.second)[at[0].c];
#pragma unroll
        for (auto& slot : x)
#pragma unroll
          for (T& v : slot) v = fma(a, v, b);
        break;
      }
      case ChainStep::pointwise:
        by_runs<together>(x,
                          [&](const Run<T, together>& run, int) { return apply_run(step.op, step.params.bytes, run); });
        break;
      case ChainStep::combine:
#pragma unroll
        for (int m = 0; m < M; ++m) combine(step, at[m], x[m]);
        break;
      case ChainStep::map_space:
#pragma unroll
        for (int m = 0; m < M; ++m) normalise(step, at[m], s == 0 ? known : nullptr, x[m]);
        break;
      default:
        break;
    }
  }
}

// Finishes one element of a slot that several channels share.
template <class T>
__device__ __noinline__ void finish_one(const SpanParams& p, T value, const Slot& at, const Region<T>* known) {
  T x[1][1] = {{value}};
  run_steps(p.chain, {at}, known, x);
  store(p.to.data, place_in(p.to, at), p.to.dtype, x[0][0]);
}

// The channel and pixel of element k of a slot, as a slot of one element.
__device__ inline Slot one_of(const SpanParams& p, const Slot& at, int k) {
  const int over = (at.pixel + k) / p.pixels;
  return {at.n, at.c + over, at.pixel + k - over * p.pixels, 0, 1};
}
__device__ inline bool is_shared(const SpanParams& p, const Slot& at) { return at.pixel + at.hi > p.pixels; }

// Finishes slots of one channel. known: the region's statistics, if the chain's first step is a norm that was measured
// here; else null.
template <class E, class T, int M>
__device__ void finish_slots(const SpanParams& p, const Raw (&raw)[M], const Slot (&at)[M], const Region<T>* known) {
  constexpr int N = slot_values<E>;
  T x[M][N];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    E e[N];
    std::memcpy(&e, &raw[m], sizeof e);
#pragma unroll
    for (int k = 0; k < N; ++k) x[m][k] = to_real(e[k]);
  }
  run_steps(p.chain, at, known, x);
#pragma unroll
  for (int m = 0; m < M; ++m) store_values(p.to.data, place_in(p.to, at[m]), p.to.dtype, at[m], x[m]);
}
template <class E, class T>
__device__ void finish_slot(const SpanParams& p, const Raw& raw, const Slot& at, const Region<T>* known) {
  if (!is_shared(p, at)) return finish_slots<E, T, 1>(p, {raw}, {at}, known);
#pragma unroll 1
  for (int k = at.lo; k < at.hi; ++k)
    finish_one(p, static_cast<T>(to_real(reinterpret_cast<const E*>(&raw)[k])), one_of(p, at, k), known);
}

// The slot whose element 0 is `pixel` pixels after the first pixel of channel c. Elements [lo, hi) are valid.
__device__ inline Slot slot_at(const SpanParams& p, int n, int c, int pixel, int lo, int hi) {
  const int first = pixel + lo;
  const int over = first < p.pixels ? 0 : static_cast<int>(static_cast<unsigned>(first) / p.pixels);
  return {n, c + over, pixel - over * p.pixels, lo, hi};
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
