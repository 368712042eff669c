// SPDX-License-Identifier: Apache-2.0
// Sums of boxes of the input, in double, and their products with the weights.
#include "cuda/chain/moments.cuh"
#include "cuda/chain/span.cuh"
#include "cuda/sums/params.hpp"

namespace convt::core::cuda::sums {
namespace {

constexpr int warps = block_threads / warp_threads;
constexpr int together = 4;  // images for which a block computes products

// Adds elements [0, N) at `from` to N sums.
template <class E, int N, class T>
__device__ void add_run(const E* from, T (&sum)[N]) {
  T x[N];
  if (!load_run(from, Slot{0, 0, 0, 0, N}, x))
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = to_real(from[k]);
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] += x[k];
}

// Sums columns of N elements over the rows of the planes [begin[0], end[0]) and rows [begin[1], end[1]). The sums go to
// shared memory: [row of threads][column].
template <class E, int N>
__device__ void sum_columns(const BoxParams& p, const E* from, const int (&begin)[2], const int (&end)[2], int columns,
                            double* shared) {
  using T = decltype(to_real(E{}));
  constexpr int few = 4;  // rows whose loads are in flight at once, and which are summed in T
  const int beside = block_threads / columns, x = static_cast<int>(threadIdx.x) % columns;
  const int y = static_cast<int>(threadIdx.x) / columns, height = end[1] - begin[1];
  const int rows = (end[0] - begin[0]) * height;
  if (y >= beside) return;
  double all[N] = {};
  for (int first = y; first < rows; first += few * beside) {
    T sum[N] = {};
#pragma unroll
    for (int i = 0; i < few; ++i) {
      const int row = first + i * beside;
      if (row >= rows) continue;
      const int z = row / height;
      add_run(from + (begin[0] + z) * p.d + (begin[1] + row - z * height) * p.h + x * N, sum);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) all[k] += static_cast<double>(sum[k]);
  }
#pragma unroll
  for (int k = 0; k < N; ++k) shared[(y * columns + x) * N + k] = all[k];
}

// Sums one channel of one image: its cells, then the boxes, which consist of cells.
template <class E, int N>
__device__ void sum_boxes(const BoxParams& p, const E* from, double* boxes) {
  const auto& [ad, ah, aw] = p.axis;
  double* const columns_of = reinterpret_cast<double*>(dynamic_shared());  // block_threads * N
  double* const cells = columns_of + block_threads * N;
  const int all = ad.segments * ah.segments * aw.segments;
  for (int i = threadIdx.x; i < all; i += block_threads) cells[i] = 0;
  for (int z = 0; z < ad.segments; ++z)
    for (int y = 0; y < ah.segments; ++y)
      for (int left = 0; left < aw.size; left += block_threads * N) {
        const int width = min(aw.size - left, block_threads * N), columns = width / N;
        const int begin[2] = {ad.ends[z], ah.ends[y]}, end[2] = {ad.ends[z + 1], ah.ends[y + 1]};
        __syncthreads();
        sum_columns<E, N>(p, from + left, begin, end, columns, columns_of);
        __syncthreads();
        const int rows = min(block_threads / columns, (end[0] - begin[0]) * (end[1] - begin[1]));
        for (int s = threadIdx.x / warp_threads; s < aw.segments; s += warps) {
          const int first = max(aw.ends[s] - left, 0), last = min(aw.ends[s + 1] - left, width);
          double sum = 0;
          for (int x = first + static_cast<int>(threadIdx.x) % warp_threads; x < last; x += warp_threads)
            for (int row = 0; row < rows; ++row) sum += columns_of[row * width + x];
          sum = sum_lanes(sum, warp_threads);
          if (threadIdx.x % warp_threads == 0) cells[(z * ah.segments + y) * aw.segments + s] += sum;
        }
      }
  __syncthreads();
  const int taps = ad.taps * ah.taps * aw.taps;
  for (int tap = threadIdx.x; tap < taps; tap += block_threads) {
    const int kw = tap % aw.taps, kh = tap / aw.taps % ah.taps, kd = tap / aw.taps / ah.taps;
    double sum = 0;
    for (int z = ad.first[kd]; z < ad.last[kd]; ++z)
      for (int y = ah.first[kh]; y < ah.last[kh]; ++y)
        for (int x = aw.first[kw]; x < aw.last[kw]; ++x) sum += cells[(z * ah.segments + y) * aw.segments + x];
    boxes[tap] = sum;
  }
  __syncthreads();
}

template <class E>
__global__ void __launch_bounds__(block_threads, 4) boxes_kernel(const __grid_constant__ BoxParams p) {
  constexpr int N = slot_values<E>;
  const int taps = p.axis[0].taps * p.axis[1].taps * p.axis[2].taps;
  const std::int64_t items = std::int64_t{p.images} * p.channels;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t n = item / p.channels, c = item - n * p.channels;
    const E* const from = static_cast<const E*>(p.input) + n * p.n + c * p.c;
    const bool whole = reinterpret_cast<std::uintptr_t>(from) % span_bytes == 0 && p.axis[2].size % N == 0 &&
                       p.h % N == 0 && p.d % N == 0;
    if (whole)
      sum_boxes<E, N>(p, from, p.sums + item * taps);
    else
      sum_boxes<E, 1>(p, from, p.sums + item * taps);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) pack_kernel(const __grid_constant__ PackParams p) {
  const auto& [ad, ah, aw] = p.axis;
  const int taps = ad.taps * ah.taps * aw.taps;
  const std::int64_t count = std::int64_t{p.groups} * p.outs * p.depth * taps;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  for (std::int64_t i = first; i < count; i += std::int64_t{gridDim.x} * block_threads) {
    const int tap = static_cast<int>(i % taps), kw = tap % aw.taps, kh = tap / aw.taps % ah.taps,
              kd = tap / aw.taps / ah.taps;
    const std::int64_t pair = i / taps, channel = pair % p.depth, out = pair / p.depth;
    const std::int64_t group = out / p.outs, from = (group * p.depth + channel) * p.outs + out % p.outs;
    const bool meets = ad.first[kd] < ad.last[kd] && ah.first[kh] < ah.last[kh] && aw.first[kw] < aw.last[kw];
    static_cast<T*>(p.weights)[i] = meets ? load<T>(p.kernel, from * taps + tap, p.dtype) : T(0);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads, 4) products_kernel(const __grid_constant__ ProductParams p) {
  const int channels = p.outs * p.groups, out = static_cast<int>(blockIdx.x % channels);
  const int first = static_cast<int>(blockIdx.x / channels) * together, count = min(together, p.images - first);
  const std::int64_t depth = std::int64_t{p.depth} * p.taps, all = depth * p.groups;
  const T* const weights = static_cast<const T*>(p.weights) + out * depth;
  const double* const sums = p.sums + first * all + out / p.outs * depth;
  double own[together] = {};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < depth; i += block_threads) {
    const double weight = weights[i];
#pragma unroll
    for (int k = 0; k < together; ++k)
      if (k < count) own[k] += weight * sums[k * all + i];
  }
  __shared__ double of_warp[warps][together];
#pragma unroll
  for (int k = 0; k < together; ++k) {
    const double sum = sum_lanes(own[k], warp_threads);
    if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads][k] = sum;
  }
  __syncthreads();
  const int image = static_cast<int>(threadIdx.x);
  if (image >= count) return;
  double sum = 0;
  for (const auto& one : of_warp) sum += one[image];
  finish_one<ValueOf<T>>(p.results, 0, static_cast<T>(p.factor * sum), Slot{p.first + first + image, out, 0, 0, 1});
}

template <class E>
void launch_boxes_of(const BoxParams& p, cudaStream_t stream) {
  const std::size_t shared = (std::size_t{block_threads} * slot_values<E> + most_cells) * sizeof(double);
  launch(boxes_kernel<E>, "the kernel of sums of boxes",
         {blocks_for(std::int64_t{p.images} * p.channels, 1, 1 << 20), stream, shared}, p);
}

}  // namespace

void launch_boxes(const BoxParams& p, cudaStream_t stream) {
  const auto launch = p.dtype == CONVT_F64    ? launch_boxes_of<double>
                      : p.dtype == CONVT_F16  ? launch_boxes_of<convt_f16>
                      : p.dtype == CONVT_BF16 ? launch_boxes_of<convt_bf16>
                                              : launch_boxes_of<float>;
  launch(p, stream);
}

template <class T>
void launch_pack(const PackParams& p, cudaStream_t stream) {
  const std::int64_t taps = std::int64_t{p.axis[0].taps} * p.axis[1].taps * p.axis[2].taps;
  const std::int64_t count = std::int64_t{p.groups} * p.outs * p.depth * taps;
  launch(pack_kernel<T>, "the kernel that packs weights", {blocks_for(count, block_threads, 1 << 16), stream, 0}, p);
}
template <class T>
void launch_products(const ProductParams& p, cudaStream_t stream) {
  const std::int64_t images = (p.images + together - 1) / together;
  launch(products_kernel<T>, "the kernel of products with sums", {blocks_for(images * p.outs * p.groups, 1), stream, 0},
         p);
}
template void launch_pack<float>(const PackParams&, cudaStream_t);
template void launch_pack<double>(const PackParams&, cudaStream_t);
template void launch_products<float>(const ProductParams&, cudaStream_t);
template void launch_products<double>(const ProductParams&, cudaStream_t);

}  // namespace convt::core::cuda::sums
