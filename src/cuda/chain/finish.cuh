// SPDX-License-Identifier: Apache-2.0
// Runs a chain on a part of a tensor whose slots are in shared memory, and stores it. Pairs of slots go through the
// commonest chains in a loop of their own: a norm, a linear step with constants by channel, an op.
#pragma once

#include "cuda/chain/span.cuh"

namespace convt::core::cuda {

// A part of a region, cut into slots for the members of a team. All slots but the first and last have all elements.
struct Part {
  int n, c;             // image; the channel in which the part begins
  int first;            // pixel of c where the first slot begins
  int begin, end;       // pixels of c where elements begin and end
  std::int64_t origin;  // pixel of c where the region begins
};

// A part, a thread's slots of it, and its norm.
template <class T>
struct Finish {
  Part part;
  const Raw* slots;
  int apart, member, size;  // slots from one of the thread's to the next; the thread's place in its team
  bool measured;            // the chain's first step is a norm, with the statistics `region`
  Region<T> region;

  template <class E>
  __device__ int pixel_of(int k) const {
    return part.first + (member + k * size) * slot_values<E>;
  }
  __device__ bool one_channel(const SpanParams& p) const { return part.end <= p.pixels; }
};

// The beginning of a chain: (x - centre) * scale + offset, then what `lines` or `weighted` says.
template <class T>
struct Beginning {
  T centre = 0, scale = 1, offset = 0;
  bool weighted = false;  // then a weight and a bias by element
  int steps = 0;          // of the chain, that this is

  __device__ Beginning(const SpanParams& p, const Finish<T>& f) {
    if (!f.measured) return;
    centre = f.region.centre;
    scale = f.region.scale;
    weighted = p.chain.steps[0].weight[0] != nullptr;
    steps = 1;
    if (weighted || !f.one_channel(p) || p.chain.count == 1 || p.chain.steps[1].kind != ChainStep::affine) return;
    const LineOf<T> line(p.chain.steps[1], f.part.c);
    const T both = scale * line.a, size = both < 0 ? -both : both;
    if (!(size > T(1e-30) && size < T(1e30))) return;  // too near the ends of the range
    scale = both;
    offset = line.b;
    steps = 2;
  }
  __device__ T map(T x) const { return fma(x - centre, scale, offset); }
};

// The channel and the pixel of it where a slot begins. Only if that is a pixel of the part may the place advance to the
// next slot, `step` elements further.
struct SlotPlace {
  int c, inside, channels, pixels, of;

  __device__ SlotPlace(const SpanParams& p, const Part& part, bool one_channel, int pixel, int step)
      : c(part.c), inside(pixel), channels(0), pixels(step), of(one_channel ? most_span_pixels * 2 - 1 : p.pixels) {
    if (one_channel) return;
    const int over = max(inside, 0) / of;
    c += over;
    inside -= over * of;
    channels = step / of;
    pixels = step - channels * of;
  }
  __device__ void advance() {
    c += channels;
    inside += pixels;
    if (inside < of) return;
    inside -= of;
    ++c;
  }
};

// Finishes pairs of whole slots from slot k on, k even, and returns the first slot that is left. to: pixel 0.
// by_channel: a linear step follows the norm, in a part of several channels. op(v) is the last step.
template <class E, class T, class F>
__device__ int finish_pairs(const SpanParams& p, const Finish<T>& f, const Beginning<T>& beginning, bool by_channel,
                            int k, E* to, F&& op) {
  constexpr int N = slot_values<E>;
  const int step = f.size * N, end = f.part.end;
  int pixel = f.template pixel_of<E>(k);
  SlotPlace place(p, f.part, !by_channel, pixel, step);
  const Raw* from = f.slots + k * f.apart;
  E* out = to + pixel;
#pragma unroll 1
  for (; pixel + step + N <= end; k += 2, pixel += 2 * step, from += 2 * f.apart, out += 2 * step) {
    T x[2][N];
    unpack<E>(from[0], x[0]);
    unpack<E>(from[f.apart], x[1]);
#pragma unroll
    for (auto& slot : x)
#pragma unroll
      for (T& v : slot) v = beginning.map(v);
    if (by_channel)
#pragma unroll
      for (auto& slot : x) {
        apply_line(p.chain.steps[1], {f.part.n, place.c, place.inside, 0, N, 1, place.of - place.inside}, slot);
        place.advance();
      }
#pragma unroll
    for (auto& slot : x)
#pragma unroll
      for (T& v : slot) op(v);
    *reinterpret_cast<Raw*>(out) = pack<E>(x[0]);
    *reinterpret_cast<Raw*>(out + step) = pack<E>(x[1]);
  }
  return k;
}

// Finishes a pair of slots, the second of which may be beyond the part. joint: run_steps() takes shared slots.
template <class E, class T>
__device__ void finish_any(const SpanParams& p, const Finish<T>& f, const Beginning<T>& beginning, bool joint, int k) {
  constexpr int N = slot_values<E>, M = 2;
  using V = ValueOf<E>;
  const Part& part = f.part;
  const int pixel = f.template pixel_of<E>(k), step = f.size * N;
  Slot at[M];
  T x[M][N];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int here = pixel + m * step;
    const SlotPlace place(p, part, f.one_channel(p), here, step);
    at[m] = {part.n, min(place.c, p.channels - 1), place.inside, max(part.begin - here, 0), min(part.end - here, N),
             1,      p.pixels - place.inside};
    unpack<E>(f.slots[(k + m) * f.apart], x[m]);
  }
  if (f.measured) {
#pragma unroll
    for (auto& slot : x)
#pragma unroll
      for (T& v : slot) v = beginning.map(v);
  }
  if (beginning.weighted) {
    const SpanStep& norm = p.chain.steps[0];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      T weight[N] = {}, bias[N] = {};
      const std::int64_t first = pixel + m * step - part.origin;
      load_values(norm.weight[0], first, norm.data.dtype, at[m], weight);
      load_values(norm.weight[1], first, norm.data.dtype, at[m], bias);
#pragma unroll
      for (int i = 0; i < N; ++i) x[m][i] = x[m][i] * weight[i] + bias[i];
    }
  }
  if (!joint && (is_shared(p, at[0]) || is_shared(p, at[1]))) {
    const Kept kept(x);
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll 1
      for (int i = at[m].lo; i < at[m].hi; ++i)
        finish_one<V>(p, beginning.steps, kept.v[m * N + i], one_of(p, at[m], i));
    return;
  }
  run_steps<V>(p.chain, beginning.steps, at, x);
#pragma unroll
  for (int m = 0; m < M; ++m)
    if (at[m].lo < at[m].hi) store_values(p.to.data, place_in(p.to, at[m]), p.to.dtype, at[m], x[m]);
}

// Runs the chain on a part and stores it.
template <class E, class T>
__device__ void finish(const SpanParams& p, const Finish<T>& f) {
  using V = ValueOf<E>;
  const Part& part = f.part;
  const Beginning<T> beginning(p, f);
  const bool one_channel = f.one_channel(p), joint = one_channel || takes_shared(p, beginning.steps);
  // The member's first slot may lack elements.
  const int begin = part.begin > f.template pixel_of<E>(0) ? 2 : 0;
  int done = begin;
  E* const to = static_cast<E*>(p.to.data) + (part.n * p.to.n + part.c * p.to.c);
  if (f.measured && !beginning.weighted && joint && p.to.dtype == dtype_of<E> && (one_channel || p.to.c == p.pixels) &&
      reinterpret_cast<std::uintptr_t>(to + part.first) % span_bytes == 0) {
    const bool by_channel =
        beginning.steps == 1 && p.chain.count > 1 && p.chain.steps[1].kind == ChainStep::affine && !one_channel;
    const int next = beginning.steps + (by_channel ? 1 : 0), left = p.chain.count - next;
    const auto pairs = [&](const auto& op) { done = finish_pairs(p, f, beginning, by_channel, begin, to, op); };
    if (left == 0) pairs([](T&) {});
    const SpanStep& step = p.chain.steps[next];
    if (left == 1 && step.kind == ChainStep::pointwise)
      visit_in_registers<Pointwise>(step.op, step.params.bytes, [&]<class Op>(const Op& from) {
        if constexpr (Unrolled<Op>) {
          const Op math = from;
          pairs([&](T& v) { v = plain(math.apply(value_of<V>(v))); });
        }
      });
  }
#pragma unroll 1
  for (int k = begin != 0 ? 0 : done; f.template pixel_of<E>(k) < part.end; k = max(k + 2, done))
    finish_any<E>(p, f, beginning, joint, k);
}

}  // namespace convt::core::cuda
