// SPDX-License-Identifier: Apache-2.0
// Weights as matrix instructions read them, in the order in which they are streamed.
#include "cuda/sm90/launchers.hpp"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {
namespace {

// Where the weights of a tap are, joined ones aside: their tile, of a band's [class][chunk][tap], and the tap's place
// among all taps.
struct TapPlace {
  int tile, tap;
  int shift[3];
};
__device__ TapPlace place_of(const PackParams& p, int tap, int chunk) {
  TapPlace place;
  int behind = p.taps;                  // taps of the axes behind one
  int first = 0, count = 1, index = 0;  // of the tap's class: its first tap, its taps, this one among them
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    behind /= p.extent[a];
    const int along = tap / behind;
    tap %= behind;
    const int step = p.phases[a][0].step, i = along / step;  // the same for all phases that have taps: the first has
    int r = 0, before = 0;                                   // taps of the phases before this one's
    while (p.phases[a][r].count == 0 || p.phases[a][r].first != along - i * step) before += p.phases[a][r++].count;
    const PackPhase& phase = p.phases[a][r];
    first += count * before * behind;
    count *= phase.count;
    index = index * phase.count + i;
    place.shift[a] = phase.first_shift + i * phase.shift_step;
  }
  place.tile = first * p.chunks + chunk * count + index;
  place.tap = first + index;
  return place;
}

// What a block packs: some rows of a band, and a chunk of their input channels.
struct Piece {
  int first, rows, chunk, band;

  __device__ explicit Piece(const PackParams& p) {
    const int block = blockIdx.x;
    first = block % p.pieces * packed_rows;
    rows = min(packed_rows, p.band * p.taps * p.joined - first);
    chunk = block / p.pieces % p.chunks;
    band = block / p.pieces / p.chunks;
  }
};

// The row's place among all rows of the band's tiles. Shifts are written where it is the first channel's.
__device__ int find_row(const PackParams& p, const Piece& piece, int row) {
  const int all_taps = p.taps * p.joined, column = row / all_taps, tap = row % all_taps;
  const TapPlace place = place_of(p, tap % p.taps, piece.chunk);
  if (piece.band == 0 && piece.chunk == 0 && row < p.taps)
    for (int a = 0; a < 3; ++a) p.shifts[place.tap * 3 + a] = place.shift[a];
  return (place.tile * p.joined + tap / p.taps) * p.band + column;
}

// What a block's flag tells of: weights that are not finite, as matrix instructions take them.
template <class E>
__device__ bool is_finite(E weight) {
  return isfinite(rounded_value(weight)) != 0;
}
__device__ inline bool is_finite(Halved weight) { return fabsf(weight.value) < beyond_f16; }
// And rows that f16 does not do for in place of tf32: a warp has each of 64 weights twice.
template <class E>
__device__ bool does_for_row(const E*) {
  return true;
}
__device__ inline bool does_for_row(const Halved* row) {
  int tiny = 0, some = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float size = fabsf(row[half * warp_threads + static_cast<int>(threadIdx.x) % warp_threads].value);
    tiny += __popc(__ballot_sync(~0U, size > 0 && size < tiny_weight));
    some += __popc(__ballot_sync(~0U, size > 0));
  }
  return !loses_digits(tiny, some);
}
// Of f16 in place of tf32, times the filter's scale.
template <class E>
__device__ E scaled(E weight, float) {
  return weight;
}
__device__ inline Halved scaled(Halved weight, float scale) { return {weight.value * scale}; }

// Weights are read along rows, which are neighbours in the kernel's tensor, and written along input channels. Of what a
// kernel just before writes, scales alone are read.
template <class E>
__global__ void __launch_bounds__(block_threads) pack_kernel(const __grid_constant__ PackParams p) {
  constexpr int size = operand_bytes<E>, most_channels = 128 / size, unit = 16 / size;
  constexpr int pitch = most_channels + 4 / static_cast<int>(sizeof(E));  // all banks meet
  constexpr int loads = packed_rows * most_channels / block_threads;      // under way at once
  __shared__ E staged[packed_rows * pitch];
  __shared__ int places[packed_rows], careful;
  let_next_begin();
  const Piece piece(p);
  const int thread = threadIdx.x, own_row = thread % packed_rows, channels = p.row_bytes / size;
  const std::int64_t each = static_cast<std::int64_t>(p.out_channels) * p.taps * p.joined;  // rows of an input channel
  const std::int64_t from = static_cast<std::int64_t>(piece.band) * p.band * p.taps * p.joined + piece.first + own_row;
  E weight[loads];
#pragma unroll
  for (int k = 0; k < loads; ++k) {
    const int channel = thread / packed_rows + k * (block_threads / packed_rows), in = piece.chunk * channels + channel;
    weight[k] = E{};
    if (own_row < piece.rows && from < each && channel < channels && in < p.in_channels)
      weight[k] = static_cast<const E*>(p.kernel)[in * each + from];
  }
  if (thread < piece.rows) places[thread] = find_row(p, piece, piece.first + thread);
  if (thread == 0) careful = 0;
  float scale = p.scale;
  if (std::is_same_v<E, Halved> && p.scales != nullptr) {
    wait_for_kernel_before();
    const int filter = piece.band * p.band + (piece.first + own_row) / (p.taps * p.joined);
    if (filter < p.out_channels) scale = p.scales[filter];
  }
  __syncthreads();
  bool finite = true;
#pragma unroll
  for (int k = 0; k < loads; ++k) {
    weight[k] = scaled(weight[k], scale);
    staged[own_row * pitch + thread / packed_rows + k * (block_threads / packed_rows)] = weight[k];
    finite &= is_finite(weight[k]);
  }
  if (!finite) atomicOr(&careful, 1);
  __syncthreads();
  for (int row = thread / warp_threads; row < packed_rows; row += block_threads / warp_threads)
    if (!does_for_row(staged + row * pitch)) atomicOr(&careful, 1);
  const int units = p.row_bytes / 16, columns = p.joined * p.band;
  auto* const to =
      static_cast<uint4*>(p.weights) + static_cast<std::int64_t>(piece.band) * p.taps * p.chunks * columns * units;
  for (int i = thread; i < piece.rows * units; i += block_threads) {
    const int row = i / units, place = places[row];
    E values[unit];
#pragma unroll
    for (int k = 0; k < unit; ++k) values[k] = staged[row * pitch + i % units * unit + k];
    to[static_cast<std::int64_t>(place) * units + place_in_row(place % columns, i % units, p.row_bytes)] =
        rounded_vector(values);
  }
  __syncthreads();
  const int own = blockIdx.x, last = static_cast<int>(gridDim.x) - 1;
  if (thread == 0) p.careful[own] = careful != 0 ? 1 : 0;
  if (own == last && own + 1 + thread < flag_loads(last + 1) * 16) p.careful[own + 1 + thread] = 0;
  wait_for_kernel_before();
}

}  // namespace

void launch_pack(const PackParams& p, convt_dtype element, cudaStream_t stream, bool early) {
  const auto kernel = p.halved               ? pack_kernel<Halved>
                      : element == CONVT_F32 ? pack_kernel<float>
                      : element == CONVT_F16 ? pack_kernel<convt_f16>
                                             : pack_kernel<convt_bf16>;
  launch(kernel, "the kernel that packs weights",
         {static_cast<unsigned>(p.bands * p.chunks * p.pieces), stream, 0, early}, p);
}

}  // namespace convt::core::cuda::sm90
