// SPDX-License-Identifier: Apache-2.0
// Weights as matrix instructions read them, in the order in which they are streamed.
#include "cuda/sm90/launchers.hpp"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {
namespace {

// The class of a tile, the tile's place in it, and the tap: [class][chunk][tap].
struct TileOf {
  int chunk, tap;    // tap: row-major, of the kernel
  int first, index;  // first tap of the class, and the tap's place in it
  int shift[3];
};
__device__ TileOf tile_of(const PackParams& p, int tile) {
  int kernel_behind = p.taps, done = 1, first = 0;
  const int at = tile / p.chunks;
  PackPhase phase[3];
  for (int a = 0; a < 3; ++a) {
    kernel_behind /= p.extent[a];
    int r = 0;
    while (first + done * p.phases[a][r].count * kernel_behind <= at)
      first += done * p.phases[a][r++].count * kernel_behind;
    phase[a] = p.phases[a][r];
    done *= phase[a].count;
  }
  TileOf result;
  const int inside = tile - first * p.chunks;
  result.chunk = inside / done;
  result.first = first;
  result.index = inside % done;
  int rest = result.index, pitch = 1;
  result.tap = 0;
  for (int a = 2; a >= 0; --a) {
    const int i = rest % phase[a].count;
    rest /= phase[a].count;
    result.tap += (phase[a].first + i * phase[a].step) * pitch;
    pitch *= p.extent[a];
    result.shift[a] = phase[a].first_shift + i * phase[a].shift_step;
  }
  return result;
}

template <class E>
__device__ E weight_at(const PackParams& p, std::int64_t index) {
  if constexpr (sizeof(E) == sizeof(float))
    return rounded_value(load<float>(p.kernel, index, p.dtype));
  else
    return at<E>(p.kernel, index);
}

// A block packs one tile, and says whether all of it is finite. What a kernel just before writes is not read.
template <class E>
__global__ void __launch_bounds__(block_threads) pack_kernel(const __grid_constant__ PackParams p) {
  let_next_begin();
  const int channels = p.row_bytes / static_cast<int>(sizeof(E)), columns = p.joined * p.band;
  const int tiles = p.taps * p.chunks;
  const int band = static_cast<int>(blockIdx.x) / tiles, tile = static_cast<int>(blockIdx.x) % tiles;
  __shared__ int careful;
  if (threadIdx.x == 0) careful = 0;
  __syncthreads();
  const TileOf of = tile_of(p, tile);
  if (band == 0 && of.chunk == 0 && threadIdx.x < 3)
    p.shifts[(of.first + of.index) * 3 + threadIdx.x] = of.shift[threadIdx.x];
  E* const to = static_cast<E*>(p.weights) + static_cast<std::int64_t>(blockIdx.x) * columns * channels;
  // Several loads are under way at once: neighbours are far apart in the kernel.
  constexpr int each = 8;
  for (int first = threadIdx.x; first < columns * channels; first += each * block_threads) {
    E weight[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const int i = first + k * block_threads, column = i / channels;
      const int in = of.chunk * channels + i % channels, out = band * p.band + column % p.band;
      const int tap = column / p.band * p.taps + of.tap;
      weight[k] = E{};
      if (i < columns * channels && in < p.in_channels && out < p.out_channels)
        weight[k] = weight_at<E>(p, (static_cast<std::int64_t>(in) * p.out_channels + out) * p.taps * p.joined + tap);
    }
    bool all_finite = true;
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const int i = first + k * block_threads;
      all_finite &= isfinite(to_real(weight[k])) != 0;
      if (i < columns * channels) to[weight_place<E>(i / channels, i % channels, p.row_bytes)] = weight[k];
    }
    if (!all_finite) atomicOr(&careful, 1);
  }
  __syncthreads();
  const int own = blockIdx.x, last = static_cast<int>(gridDim.x) - 1;
  if (threadIdx.x == 0) p.careful[own] = careful != 0 ? 1 : 0;
  if (own == last && own + 1 + static_cast<int>(threadIdx.x) < careful_loads(last + 1) * 16)
    p.careful[own + 1 + threadIdx.x] = 0;
  wait_for_kernel_before();
}

}  // namespace

void launch_pack(const PackParams& p, convt_dtype element, cudaStream_t stream, bool early) {
  const auto kernel = element == CONVT_F32   ? pack_kernel<float>
                      : element == CONVT_F16 ? pack_kernel<convt_f16>
                                             : pack_kernel<convt_bf16>;
  launch(kernel, "the kernel that packs weights",
         {static_cast<unsigned>(p.bands * p.taps * p.chunks), stream, 0, early}, p);
}

}  // namespace convt::core::cuda::sm90
