// SPDX-License-Identifier: Apache-2.0
// Runs a chain on a strip: some pixels, [channel][pixel], in shared memory or in the block's part of global memory.
// Steps that see one element run one after the other on elements in registers. A step that mixes channels first takes
// its statistics from the whole strip. All of the block's first block_threads threads call these functions.
#pragma once

#include "cuda/chain/element.cuh"
#include "cuda/chain/ops.cuh"
#include "cuda/chain/params.hpp"
#include "cuda/common/block.hpp"
#include "cuda/common/instructions.cuh"

namespace convt::core::cuda {

// A barrier of these threads: a block may have others.
__device__ inline void sync_strip() { sync_some<1, block_threads>(); }

template <class T>
struct Strip {
  T* data = nullptr;
  int pitch = 0;       // from one channel to the next: odd, so that a column covers all banks
  int log_pixels = 0;  // of a power of 2 pixels
  int channels = 0, first_channel = 0;
  const Pixel* at = nullptr;              // by pixel
  T* scratch = nullptr;                   // 2 per thread
  T *centre = nullptr, *scale = nullptr;  // by pixel

  __device__ int pixels() const { return 1 << log_pixels; }
  __device__ T& operator()(int channel, int pixel) const { return data[channel * pitch + pixel]; }
};
template <class T>
__device__ Strip<T> strip_in(void* shared, int log_pixels) {
  Strip<T> strip;
  strip.log_pixels = log_pixels;
  strip.at = static_cast<const Pixel*>(shared);
  strip.scratch = reinterpret_cast<T*>(static_cast<Pixel*>(shared) + strip.pixels());
  strip.centre = strip.scratch + 2 * block_threads;
  strip.scale = strip.centre + strip.pixels();
  return strip;
}

// Four channels of one pixel, `apart` from each other. Those from `channels` on have no meaning.
template <class T>
struct Quad {
  static constexpr int size = 4;
  T v[size];
};
struct QuadPlace {
  int channel, apart, channels, first_channel;
  int pixel;
  Pixel at;

  // The channel in the tensor; after the last channel, the last one.
  __device__ int channel_of(int i) const {
    const int c = channel + i * apart;
    return first_channel + (c < channels ? c : channels - 1);
  }
};
__device__ inline std::int64_t offset(const Strides& step, const Pixel& at) {
  return at.n * step.n + at.d * step.d + at.h * step.h + at.w * step.w;
}

// Pixel `index` of the slab's box and images.
__device__ inline Pixel pixel_at(const ChainParams& p, std::int64_t index) {
  const unsigned each = static_cast<unsigned>(p.size[0]) * p.size[1] * p.size[2];
  if (index >= static_cast<std::int64_t>(each) * p.images) return {-1, 0, 0, 0};
  const unsigned n = static_cast<unsigned>(index) / each;
  unsigned rest = static_cast<unsigned>(index) - n * each;
  const unsigned w = rest % p.size[2];
  rest /= p.size[2];
  return {static_cast<int>(n), static_cast<int>(rest / p.size[1]), static_cast<int>(rest % p.size[1]),
          static_cast<int>(w)};
}

// Applies an op to four values, which share the choice of the op. Not inlined: all kernels of a file use one copy.
template <class T>
__device__ __noinline__ Quad<T> apply_pointwise(int op, const void* params, Quad<T> x) {
  visit<Pointwise>(op, params, [&](const auto& math) {
#pragma unroll
    for (T& v : x.v) v = math.apply(v);
  });
  return x;
}
template <class T>
__device__ Quad<T> apply_combine(const ChainStep& step, Quad<T> x, const QuadPlace& place) {
  const std::int64_t base = offset(step.step, place.at);
  const bool number = step.data[0] == nullptr;
  Quad<T> other{};
#pragma unroll
  for (int i = 0; i < x.size; ++i)
    if (!number) other.v[i] = load<T>(step.data[0], base + place.channel_of(i) * step.step.c, step.dtype);
  visit<Combine>(step.op, step.params.bytes, [&](const auto& math) {
#pragma unroll
    for (int i = 0; i < x.size; ++i) x.v[i] = math.apply(x.v[i], number ? T(math.term.number) : other.v[i]);
  });
  return x;
}
template <class T>
__device__ Quad<T> apply_space(const ChainStep& step, Quad<T> x, const QuadPlace& place) {
  const std::int64_t base = offset(step.step, place.at), weight_base = offset(step.weight_step, place.at);
#pragma unroll
  for (int i = 0; i < x.size; ++i) {
    const int c = place.channel_of(i);
    const std::int64_t region = base + c / step.channels_each * step.step.c;
    const T centre = at<T>(step.data[0], region), scale = at<T>(step.data[1], region);
    x.v[i] = ops_device::Norm{}.map(x.v[i], centre, scale);
    if (step.weight[0] == nullptr) continue;
    const std::int64_t inside = weight_base + c * step.weight_step.c;
    x.v[i] = x.v[i] * load<T>(step.weight[0], inside, step.dtype) + load<T>(step.weight[1], inside, step.dtype);
  }
  return x;
}

template <class T>
__device__ Quad<T> apply_step(const ChainStep& step, Quad<T> x, const QuadPlace& place, const Strip<T>& strip) {
  switch (step.kind) {
    case ChainStep::affine:
#pragma unroll
      for (int i = 0; i < x.size; ++i) {
        const int c = place.channel_of(i);
        x.v[i] = fma(at<T>(step.data[0], c), x.v[i], at<T>(step.data[1], c));
      }
      return x;
    case ChainStep::pointwise:
      return apply_pointwise(step.op, step.params.bytes, x);
    case ChainStep::combine:
      return apply_combine(step, x, place);
    case ChainStep::map_space:
      return apply_space(step, x, place);
    case ChainStep::map_channels:
      visit<Normalise>(step.op, step.params.bytes, [&](const auto& op) {
#pragma unroll
        for (T& v : x.v) v = math_of(op).map(v, strip.centre[place.pixel], strip.scale[place.pixel]);
      });
      return x;
    case ChainStep::reduce_channels:
      break;
  }
  return x;
}

// Runs steps [begin, end), which see one element each, on the strip. Results stay in place or go to `to`.
template <class T>
__device__ void run_elements(const Chain& chain, int begin, int end, const Strip<T>& strip, const View* to) {
  const int pixels = strip.pixels(), quads = (strip.channels + 3) / 4;
  const bool by_channel = to != nullptr && to->step.c == 1;  // neighbouring threads get neighbours in memory
  for (int i = threadIdx.x; i < quads * pixels; i += block_threads) {
    QuadPlace place{by_channel ? i % quads : i >> strip.log_pixels, quads, strip.channels, strip.first_channel,
                    by_channel ? i / quads : i & (pixels - 1),      {}};
    place.at = strip.at[place.pixel];
    if (place.at.n < 0) continue;
    Quad<T> x;
#pragma unroll
    for (int k = 0; k < x.size; ++k) {
      const int c = place.channel + k * quads;
      x.v[k] = c < strip.channels ? strip(c, place.pixel) : T(0);
    }
    for (int s = begin; s < end; ++s) x = apply_step(chain.steps[s], x, place, strip);
    const std::int64_t base = to != nullptr ? offset(to->step, place.at) : 0;
#pragma unroll
    for (int k = 0; k < x.size; ++k) {
      const int c = place.channel + k * quads;
      if (c >= strip.channels) continue;
      if (to == nullptr)
        strip(c, place.pixel) = x.v[k];
      else
        store(to->data, base + (strip.first_channel + c) * to->step.c, to->dtype, x.v[k]);
    }
  }
}

// Joins the values of the threads that share a pixel, in the order of threads. The first of these threads gets the
// result.
template <class T, class Join>
__device__ T join_threads(T own, T* scratch, const Strip<T>& strip, Join join) {
  const int first = threadIdx.x & (strip.pixels() - 1);
  scratch[threadIdx.x] = own;
  sync_strip();
  if (threadIdx.x < strip.pixels())
    for (int i = first + strip.pixels(); i < block_threads; i += strip.pixels()) own = join(own, scratch[i]);
  return own;
}

// Finds the centre and scale of each pixel, as src/reference/chain.cpp does. The sum of deviations corrects the rounded
// mean of a norm, and its sum of squares.
template <class T, class Op>
__device__ void take_statistics(const Op& op, const Strip<T>& strip) {
  constexpr bool norm = std::is_base_of_v<ops_device::Norm, Op>;
  const int pixel = threadIdx.x & (strip.pixels() - 1), first = threadIdx.x >> strip.log_pixels;
  const int apart = block_threads >> strip.log_pixels;
  const T count = static_cast<T>(strip.channels);
  T folded = op.template start<T>();
  for (int c = first; c < strip.channels; c += apart) folded = op.join(folded, strip(c, pixel));
  folded = join_threads(folded, strip.scratch, strip, [&](T a, T b) { return op.join(a, b); });
  if (first == 0) strip.centre[pixel] = op.centre(folded, count);
  sync_strip();
  if constexpr (Op::two_pass) {
    const T centre = strip.centre[pixel];
    T total = 0, rest = 0;
    for (int c = first; c < strip.channels; c += apart) {
      const T x = strip(c, pixel);
      total += op.deviation(x, centre);
      if constexpr (norm) rest += x - centre;
    }
    const auto add = [](T a, T b) { return a + b; };
    total = join_threads(total, strip.scratch, strip, add);
    if constexpr (norm) {
      rest = join_threads(rest, strip.scratch + block_threads, strip, add);
      const T correction = rest / count;
      total -= rest * correction;
      if (total < T(0)) total = T(0);
      if (first == 0) strip.centre[pixel] = centre + correction;
    }
    if (first == 0) strip.scale[pixel] = op.scale(total, count);
  }
  if constexpr (std::is_base_of_v<Reduce, Op>) {
    if (first == 0) strip(0, pixel) = op.result(strip.centre[pixel], Op::two_pass ? strip.scale[pixel] : T(0));
  }
  sync_strip();
}
template <class T>
__device__ __noinline__ void mix_channels(const ChainStep& step, Strip<T> strip) {
  const auto take = [&](const auto& op) { take_statistics(math_of(op), strip); };
  if (step.kind == ChainStep::reduce_channels)
    visit<Reduce>(step.op, step.params.bytes, take);
  else
    visit<Normalise>(step.op, step.params.bytes, take);
}

// Runs all steps on a strip, which must be filled and synchronised, and stores the result.
template <class T>
__device__ void run_chain(const Chain& chain, Strip<T> strip, const View& to) {
  int begin = 0;
  bool mixed = false;  // the statistics of step `begin` have been taken
  while (true) {
    int end = begin + mixed;
    while (end < chain.count && chain.steps[end].kind != ChainStep::map_channels &&
           chain.steps[end].kind != ChainStep::reduce_channels)
      ++end;
    if (end == chain.count) break;
    if (end > begin) {
      run_elements<T>(chain, begin, end, strip, nullptr);
      sync_strip();
    }
    mix_channels(chain.steps[end], strip);
    mixed = chain.steps[end].kind == ChainStep::map_channels;
    if (!mixed) strip.channels = 1;
    begin = mixed ? end : end + 1;
  }
  run_elements(chain, begin, chain.count, strip, &to);
}

}  // namespace convt::core::cuda
