// SPDX-License-Identifier: Apache-2.0
// Pools. With small windows, a thread computes four results of a column: lanes are neighbours along w, and rows that
// windows share are loaded once. A large window is folded by a warp or a block.
#pragma once

#include "cuda/chain/moments.cuh"
#include "cuda/chain/span.cuh"

namespace convt::core::cuda {

inline constexpr int column = Quad<float>::size;  // results of a thread
inline constexpr int most_of_warp = 2048;         // elements of a window that a warp folds

// The part of a window inside the image, counted in the box of inputs. counted: what the op divides by.
struct Window {
  int begin, end, counted;
};
__device__ inline Window window_of(const PoolSpanParams::Axis& axis, int out, bool whole) {
  const int start = axis.start + out * axis.stride;
  const int begin = max(start, axis.begin), end = min(start + axis.size, axis.end);
  return {begin, end, whole ? min(axis.size, axis.end + axis.padding - start) : end - begin};
}

// Folds the rows of one plane at `from`, each over [w.begin, w.end), into the results whose windows include them.
template <class E, class T, class Op>
__device__ void fold_rows(const Op& op, const E* from, std::int64_t pitch, const Window& w, const Window (&h)[column],
                          T (&folded)[column]) {
  constexpr int rows = 3, each = 4;  // loads in flight at once: rows, and elements of each
  const int end = h[column - 1].end;
  for (int first = h[0].begin; first < end; first += rows) {
    T of_row[rows];
#pragma unroll
    for (T& one : of_row) one = op.template start<T>();
    for (int x = w.begin; x < w.end; x += each) {
      T value[rows][each];
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int k = 0; k < each; ++k)
          value[r][k] = first + r < end && x + k < w.end ? static_cast<T>(to_real(from[(first + r) * pitch + x + k]))
                                                         : op.template start<T>();
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int k = 0; k < each; ++k) of_row[r] = op.join(of_row[r], value[r][k]);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int i = 0; i < column; ++i)
        if (h[i].begin <= first + r && first + r < h[i].end) folded[i] = op.join(folded[i], of_row[r]);
  }
}

template <class E, class T>
__global__ void __launch_bounds__(block_threads, sizeof(T) == sizeof(float) ? 4 : 2)
    pool_columns_kernel(const __grid_constant__ PoolSpanParams p) {
  const auto& [ad, ah, aw] = p.axis;
  const int columns = (ah.out + column - 1) / column;
  const unsigned planes = static_cast<unsigned>(p.span.channels) * ad.out,
                 each = static_cast<unsigned>(columns) * aw.out;
  const std::int64_t count = std::int64_t{p.span.images} * planes * each;
  // Blocks begin at the end, as in chain_kernel.
  const std::int64_t item = std::int64_t{gridDim.x - 1 - blockIdx.x} * block_threads + threadIdx.x;
  if (item >= count) return;
  std::int64_t plane = 0;
  unsigned inside = 0;
  if (count >> 32 == 0) {
    plane = static_cast<unsigned>(item) / each;
    inside = static_cast<unsigned>(item) - static_cast<unsigned>(plane) * each;
  } else {
    plane = item / each;
    inside = static_cast<unsigned>(item - plane * each);
  }
  const int y = static_cast<int>(inside / aw.out) * column, x = static_cast<int>(inside % aw.out);
  const int n = static_cast<int>(plane / planes), rest = static_cast<int>(plane - std::int64_t{n} * planes);
  const int c = rest / ad.out, z = rest - c * ad.out;
  const Window d = window_of(ad, z, p.whole_window), w = window_of(aw, x, p.whole_window);
  const int rows = min(column, ah.out - y);
  Window h[column];
#pragma unroll
  for (int i = 0; i < column; ++i) h[i] = window_of(ah, y + min(i, rows - 1), p.whole_window);
  const E* const from = static_cast<const E*>(p.span.from.data) + n * p.span.from.n + c * p.span.from.c;
  T result[1][column];
  T(&folded)[column] = result[0];
  visit<Pool>(p.op, p.params.bytes, [&](const auto& op) {
#pragma unroll
    for (T& one : folded) one = op.template start<T>();
    for (int plane_of = d.begin; plane_of < d.end; ++plane_of) fold_rows(op, from + plane_of * p.d, p.h, w, h, folded);
    const T others = static_cast<T>(d.counted) * static_cast<T>(w.counted);
#pragma unroll
    for (int i = 0; i < column; ++i) folded[i] = op.result(folded[i], others * static_cast<T>(h[i].counted));
  });
  const Slot at{n, c, (z * ah.out + y) * aw.out + x, 0, rows, aw.out};
  run_steps<ValueOf<E>>(p.span.chain, 0, {at}, result);
  store_values(p.span.to.data, place_in(p.span.to, at), p.span.to.dtype, at, folded);
}

// Folds this thread's part of a row, which `size` threads share, into `folded`.
template <class E, class Op>
__device__ double fold_row(const Op& op, const E* from, int count, int member, int size, double folded) {
  constexpr int N = slot_values<E>;
  using T = decltype(to_real(E{}));
  const int lead = (N - lead_elements<E>(from)) % N, head = min(lead, count), slots = (count - head) / N;
  const auto one = [&](int i) { folded = op.join(folded, static_cast<double>(to_real(from[i]))); };
  for (int i = member; i < head; i += size) one(i);
#pragma unroll 4
  for (int s = member; s < slots; s += size) {
    const Raw raw = reinterpret_cast<const Raw*>(from + head)[s];
    E e[N];
    std::memcpy(&e, &raw, sizeof raw);
    T sum = to_real(e[0]);
#pragma unroll
    for (int k = 1; k < N; ++k) sum = op.join(sum, static_cast<T>(to_real(e[k])));
    folded = op.join(folded, static_cast<double>(sum));
  }
  for (int i = head + slots * N + member; i < count; i += size) one(i);
  return folded;
}

// Each window is folded by `threads` threads: a warp or a block.
template <class E, class T, int threads>
__global__ void __launch_bounds__(block_threads, 4) pool_windows_kernel(const __grid_constant__ PoolSpanParams p) {
  const auto& [ad, ah, aw] = p.axis;
  constexpr int teams = block_threads / threads, warps = block_threads / warp_threads;
  const int member = static_cast<int>(threadIdx.x) % threads;
  const std::int64_t count = std::int64_t{p.span.images} * p.span.channels * p.span.pixels;
  for (std::int64_t first = std::int64_t{blockIdx.x} * teams; first < count; first += std::int64_t{gridDim.x} * teams) {
    const std::int64_t own = first + static_cast<int>(threadIdx.x) / threads, item = own < count ? own : count - 1;
    const std::int64_t channel = item / p.span.pixels;
    const int pixel = static_cast<int>(item - channel * p.span.pixels), n = static_cast<int>(channel / p.span.channels);
    const int c = static_cast<int>(channel - std::int64_t{n} * p.span.channels);
    const int row = pixel / aw.out;
    const Window d = window_of(ad, row / ah.out, p.whole_window), h = window_of(ah, row % ah.out, p.whole_window);
    const Window w = window_of(aw, pixel % aw.out, p.whole_window);
    const E* const from = static_cast<const E*>(p.span.from.data) + n * p.span.from.n + c * p.span.from.c + w.begin;
    // Rows that are contiguous in memory are joined. Short rows are folded at the same time, by some threads each.
    int width = w.end - w.begin, height = h.end - h.begin, depth = d.end - d.begin;
    const std::int64_t pixels = std::int64_t{width} * height;
    const bool whole = width == p.h && (depth == 1 || pixels == p.d) && pixels * depth < most_span_pixels;
    if (whole) {
      width = static_cast<int>(pixels * depth);
      height = depth = 1;
    }
    int row_threads = threads;
    while (row_threads / 2 * slot_values<E> >= width && row_threads > 1) row_threads /= 2;
    T value = 0;
    visit<Pool>(p.op, p.params.bytes, [&](const auto& op) {
      double folded = op.template start<double>();
      for (int r = member / row_threads; r < height * depth; r += threads / row_threads) {
        const int z = r / height, y = r - z * height;
        folded = fold_row(op, from + (d.begin + z) * p.d + (h.begin + y) * p.h, width, member % row_threads,
                          row_threads, folded);
      }
      const auto join = [&](double a, double b) { return op.join(a, b); };
      folded = join_lanes(folded, join);
      if constexpr (threads > warp_threads) {
        __shared__ double of_warp[warps];
        __syncthreads();
        if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = folded;
        __syncthreads();
        folded = of_warp[0];
        for (int i = 1; i < warps; ++i) folded = join(folded, of_warp[i]);
      }
      value = static_cast<T>(op.result(folded, static_cast<double>(d.counted) * h.counted * w.counted));
    });
    if (member == 0 && own < count) finish_one<ValueOf<E>>(p.span, 0, value, Slot{n, c, pixel, 0, 1});
  }
}

template <class E, class T>
void launch_pool_of(const PoolSpanParams& p, cudaStream_t stream) {
  const auto& [ad, ah, aw] = p.axis;
  const std::int64_t window = std::int64_t{ad.size} * ah.size * aw.size;
  const std::int64_t results = std::int64_t{p.span.images} * p.span.channels * p.span.pixels;
  if (window <= most_small_window) {
    const std::int64_t threads =
        std::int64_t{p.span.images} * p.span.channels * ad.out * ((ah.out + column - 1) / column) * aw.out;
    launch(pool_columns_kernel<E, T>, "the kernel of pools", {blocks_for(threads, block_threads), stream, 0}, p);
  } else if (window <= most_of_warp) {
    launch(pool_windows_kernel<E, T, warp_threads>, "the kernel of large pools",
           {blocks_for(results, block_threads / warp_threads), stream, 0}, p);
  } else {
    launch(pool_windows_kernel<E, T, block_threads>, "the kernel of pools over images",
           {blocks_for(results, 1), stream, 0}, p);
  }
}

}  // namespace convt::core::cuda
