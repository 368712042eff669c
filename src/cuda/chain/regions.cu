// SPDX-License-Identifier: Apache-2.0
// Moments of the regions of norms over space, and folds of pools over whole images. A warp takes a chunk. Chunks are
// joined in order, in double. So are slabs, which follow each other on the stream.
#include "cuda/chain/element.cuh"
#include "cuda/chain/launchers.hpp"
#include "cuda/chain/moments.cuh"
#include "cuda/chain/pool.cuh"

namespace convt::core::cuda {
namespace {

constexpr int warps = block_threads / warp_threads;

__device__ int lane() { return threadIdx.x % warp_threads; }

__device__ std::int64_t region_count(const RegionParams& p) {
  return static_cast<std::int64_t>(p.channels) * p.size[0] * p.size[1] * p.size[2];
}

// The elements of one chunk of one region of one image.
template <class T>
struct Chunk {
  const T* data;
  int count;
};
template <class T>
__device__ Chunk<T> chunk_at(const RegionParams& p, std::int64_t item) {
  const std::int64_t first = item % p.chunks * RegionParams::chunk;
  const std::int64_t region = item / p.chunks % region_count(p), image = item / p.chunks / region_count(p);
  const std::int64_t left = p.elements - first;
  return {static_cast<const T*>(p.values) + image * p.image_step + region * p.elements + first,
          static_cast<int>(left < RegionParams::chunk ? left : RegionParams::chunk)};
}

// Like measure() of the CPU engine: sums of up to chunk/32 elements are in T, everything else in double.
template <class T>
__device__ Moments moments_of(const Chunk<T>& chunk) {
  const auto add = [](double a, double b) { return a + b; };
  const double count = chunk.count;
  T sum = 0;
  for (int i = lane(); i < chunk.count; i += warp_threads) sum += chunk.data[i];
  const T centre = static_cast<T>(join_lanes(static_cast<double>(sum), add) / count);
  T first = 0, second = 0;
  for (int i = lane(); i < chunk.count; i += warp_threads) {
    const T deviation = chunk.data[i] - centre;
    first += deviation;
    second += deviation * deviation;
  }
  const double rest = join_lanes(static_cast<double>(first), add);
  const double squares = join_lanes(static_cast<double>(second), add);
  const double correction = rest / count, total = squares - rest * correction;
  return {count, static_cast<double>(centre) + correction, total < 0 ? 0 : total};
}

template <class T>
__global__ void __launch_bounds__(block_threads) moments_kernel(const __grid_constant__ RegionParams p) {
  const std::int64_t items = p.images * region_count(p) * p.chunks;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_threads; item < items;
       item += static_cast<std::int64_t>(gridDim.x) * warps) {
    const Moments own = moments_of(chunk_at<T>(p, item));
    if (lane() == 0) static_cast<Moments*>(p.partials)[item] = own;
  }
}

template <class E>
__global__ void __launch_bounds__(block_threads, 4) folds_kernel(const __grid_constant__ RegionParams p) {
  const std::int64_t items = p.images * region_count(p) * p.chunks;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_threads; item < items;
       item += static_cast<std::int64_t>(gridDim.x) * warps) {
    const Chunk<E> chunk = chunk_at<E>(p, item);
    visit<Pool>(p.op, p.params.bytes, [&](const auto& op) {
      const double own = fold_row(op, chunk.data, chunk.count, lane(), warp_threads, op.template start<double>());
      const double all = join_lanes(own, [&](double a, double b) { return op.join(a, b); });
      if (lane() == 0) static_cast<double*>(p.partials)[item] = all;
    });
  }
}

// The index of the slab's region among the regions of the whole image.
__device__ std::int64_t place_of(const RegionParams& p, std::int64_t item) {
  const std::int64_t region = item % region_count(p), image = item / region_count(p);
  const std::int64_t w = region % p.size[2], h = region / p.size[2] % p.size[1];
  const std::int64_t d = region / p.size[2] / p.size[1] % p.size[0];
  const std::int64_t c = region / p.size[2] / p.size[1] / p.size[0];
  return image * p.step.n + c * p.step.c + d * p.step.d + h * p.step.h + w * p.step.w;
}

// Joins the chunks of a region of the slab and adds them to the region's sums. A thread does this, or a warp if chunks
// are many.
constexpr int chunks_of_a_thread = 4;
template <class Sum, class Join>
__device__ void join_chunks(const RegionParams& p, Sum none, Join join) {
  const bool by_warp = p.chunks > chunks_of_a_thread;
  const int team = by_warp ? warp_threads : 1, member = by_warp ? lane() : 0;
  const int each = (p.chunks + team - 1) / team, begin = member * each, end = min(begin + each, p.chunks);
  const std::int64_t items = p.images * region_count(p),
                     teams = static_cast<std::int64_t>(gridDim.x) * block_threads / team;
  for (std::int64_t item = (static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x) / team; item < items;
       item += teams) {
    const Sum* const partials = static_cast<const Sum*>(p.partials) + item * p.chunks;
    Sum own = none;
    for (int i = begin; i < end; ++i) own = join(own, partials[i]);
    if (by_warp) own = join_lanes(own, join);
    Sum& sum = static_cast<Sum*>(p.sums)[place_of(p, item)];
    if (member == 0) sum = p.first ? own : join(sum, own);
  }
}
__global__ void __launch_bounds__(block_threads) join_moments_kernel(const __grid_constant__ RegionParams p) {
  join_chunks(p, Moments{0, 0, 0}, merge);
}
__global__ void __launch_bounds__(block_threads) join_folds_kernel(const __grid_constant__ RegionParams p) {
  visit<Pool>(p.op, p.params.bytes, [&](const auto& op) {
    join_chunks(p, op.template start<double>(), [&](double a, double b) { return op.join(a, b); });
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads) statistics_kernel(const __grid_constant__ FinishParams p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= p.count) return;
  const Moments moments = static_cast<const Moments*>(p.sums)[i];
  visit<ops_device::Norm>(p.op, p.params.bytes, [&](const auto& op) {
    static_cast<T*>(p.first)[i] = static_cast<T>(moments.centre);
    static_cast<T*>(p.second)[i] = static_cast<T>(math_of(op).scale(moments.total, moments.count));
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads) pool_results_kernel(const __grid_constant__ FinishParams p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= p.count) return;
  visit<Pool>(p.op, p.params.bytes, [&](const auto& op) {
    static_cast<T*>(p.first)[i / p.each * p.step + i % p.each] =
        static_cast<T>(op.result(static_cast<const double*>(p.sums)[i], p.elements));
  });
}

std::int64_t regions_of_slab(const RegionParams& p) {
  return static_cast<std::int64_t>(p.images) * p.channels * p.size[0] * p.size[1] * p.size[2];
}

unsigned joining_blocks(const RegionParams& p) {
  return blocks_for(regions_of_slab(p), p.chunks > chunks_of_a_thread ? warps : block_threads);
}

}  // namespace

template <class T>
void launch_moments(const RegionParams& p, cudaStream_t stream) {
  const std::int64_t regions = regions_of_slab(p);
  launch(moments_kernel<T>, "the kernel of moments", {blocks_for(regions * p.chunks, warps), stream, 0}, p);
  launch(join_moments_kernel, "the kernel that joins moments", {joining_blocks(p), stream, 0}, p);
}
template <class T>
void launch_folds(const RegionParams& p, convt_dtype dtype, cudaStream_t stream) {
  const std::int64_t regions = regions_of_slab(p);
  const auto kernel = sizeof(T) == sizeof(double) ? folds_kernel<double>
                      : dtype == CONVT_F16        ? folds_kernel<convt_f16>
                      : dtype == CONVT_BF16       ? folds_kernel<convt_bf16>
                                                  : folds_kernel<float>;
  launch(kernel, "the kernel of folds", {blocks_for(regions * p.chunks, warps), stream, 0}, p);
  launch(join_folds_kernel, "the kernel that joins folds", {joining_blocks(p), stream, 0}, p);
}
template <class T>
void launch_statistics(const FinishParams& p, cudaStream_t stream) {
  launch(statistics_kernel<T>, "the kernel of statistics", {blocks_for(p.count, block_threads), stream, 0}, p);
}
template <class T>
void launch_pool_results(const FinishParams& p, cudaStream_t stream) {
  launch(pool_results_kernel<T>, "the kernel of pools' results", {blocks_for(p.count, block_threads), stream, 0}, p);
}

#define CONVT_INSTANTIATE(T)                                                     \
  template void launch_moments<T>(const RegionParams&, cudaStream_t);            \
  template void launch_folds<T>(const RegionParams&, convt_dtype, cudaStream_t); \
  template void launch_statistics<T>(const FinishParams&, cudaStream_t);         \
  template void launch_pool_results<T>(const FinishParams&, cudaStream_t);
CONVT_INSTANTIATE(float)
CONVT_INSTANTIATE(double)
#undef CONVT_INSTANTIATE

}  // namespace convt::core::cuda
