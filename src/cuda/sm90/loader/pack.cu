// SPDX-License-Identifier: Apache-2.0
// Packs weights in the layout of operands, in the order in which they are used.
#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/loader/pack.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// tile: the index of a tap's weight tile in a band, [phase][chunk][tap]; tap: its index in [phase][tap]. Joined taps
// count as one.
struct TapIndex {
  int tile, tap;
  int shift[3];
};
__device__ TapIndex index_of(const PackParams& p, int tap, int chunk) {
  TapIndex found;
  int inner = p.taps;  // taps of the inner axes
  int first = 0, count = 1,
      index = 0;  // the first tap of the tap's phase, its number of taps, the tap's index among them
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    inner /= p.extent[a];
    const int along = tap / inner;
    tap %= inner;
    const int step = p.phases[a][0].step, i = along / step;  // phases with taps share a step; the first has taps
    int r = 0, before = 0;                                   // before: taps of the phases before the tap's
    while (p.phases[a][r].count == 0 || p.phases[a][r].first != along - i * step) before += p.phases[a][r++].count;
    const PackPhase& phase = p.phases[a][r];
    first += count * before * inner;
    count *= phase.count;
    index = index * phase.count + i;
    found.shift[a] = phase.first_shift + i * phase.shift_step;
  }
  found.tile = first * p.chunks + chunk * count + index;
  found.tap = first + index;
  return found;
}

// What a block packs: some rows of a band, one chunk of input channels.
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

// The index of a row among all rows of the band's tiles. Also writes the taps' shifts, once.
__device__ int find_row(const PackParams& p, const Piece& piece, int row) {
  const int all_taps = p.taps * p.joined, column = row / all_taps, tap = row % all_taps;
  const TapIndex index = index_of(p, tap % p.taps, piece.chunk);
  if (piece.band == 0 && piece.chunk == 0 && row < p.taps)
    for (int a = 0; a < 3; ++a) p.shifts[index.tap * 3 + a] = index.shift[a];
  return (index.tile * p.joined + tap / p.taps) * p.band + column;
}

// Two conditions set a block's flag. First, a weight is not finite as an operand.
template <class E>
__device__ bool is_finite(E weight) {
  return isfinite(rounded_value(weight)) != 0;
}
__device__ inline bool is_finite(SplitTf32 weight) { return isfinite(weight.value) != 0; }
__device__ inline bool is_finite(Tf32AsF16 weight) { return fabsf(weight.value) < beyond_f16; }
__device__ inline bool is_finite(SplitF16 weight) { return fabsf(weight.value) < beyond_f16; }
// Second, f16 would lose digits of a row, which has 64 weights, or 32 of parts. All threads of a warp call it.
template <class E>
__device__ bool does_for_row(const E*) {
  return true;
}
template <int loads, class E>
__device__ bool does_for_weights(const E* row, float least) {
  int few = 0, some = 0;
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const float size = fabsf(row[i * warp_threads + static_cast<int>(threadIdx.x) % warp_threads].value);
    few += __popc(__ballot_sync(~0U, size > 0 && size < least));
    some += __popc(__ballot_sync(~0U, size > 0));
  }
  return !loses_digits(few, some);
}
__device__ inline bool does_for_row(const Tf32AsF16* row) { return does_for_weights<2>(row, tiny); }
__device__ inline bool does_for_row(const SplitF16* row) { return does_for_weights<1>(row, tiny_split); }
// Scales weights for f16.
template <class E>
__device__ E scaled(E weight, float) {
  return weight;
}
__device__ inline Tf32AsF16 scaled(Tf32AsF16 weight, float scale) { return {weight.value * scale}; }
__device__ inline SplitF16 scaled(SplitF16 weight, float scale) { return {weight.value * scale}; }
// f16x3: the least scale of all filters, which all of them get, or 0 if it is out of range. All threads of a block call
// it.
__device__ inline float least_scale(const PackParams& p) {
  constexpr int warps = block_threads / warp_threads;
  constexpr float least = 0x1p-54F, most = 0x1p23F;  // a smaller scale would make zeros of small normal numbers
  __shared__ float greatest_of[warps];
  float undo = 0;
  for (int filter = threadIdx.x; filter < p.out_channels; filter += block_threads)
    undo = fmaxf(undo, p.scales[p.out_channels + filter]);
  undo = greatest_of_warp(undo);
  if (threadIdx.x % warp_threads == 0) greatest_of[threadIdx.x / warp_threads] = undo;
  __syncthreads();
  for (const float other : greatest_of) undo = fmaxf(undo, other);
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.undo = undo;
  return undo <= most && undo >= least ? 1 / undo : 0;
}

// 16 bytes of a row. low: of the low parts, if weights are split.
template <class E>
__device__ uint4 packed_vector(const E* x, bool) {
  return rounded_vector(x);
}
__device__ inline uint4 packed_vector(const SplitF16* x, bool low) { return split_vector(x, low); }
// Finite weights that would round to infinity are truncated, and infinite ones have no low part.
__device__ inline uint4 packed_vector(const SplitTf32* x, bool low) {
  unsigned bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float value = x[i].value;
    unsigned high = tf32_bits(value);
    if (isinf(__uint_as_float(high))) high = __float_as_uint(value) & 0xffffe000U;
    bits[i] = !low ? high : isfinite(value) ? tf32_bits(value - __uint_as_float(high)) : 0;
  }
  return {bits[0], bits[1], bits[2], bits[3]};
}

// Weights are read along rows, which are neighbours in the kernel's tensor, and written along input channels. Only the
// scales come from the kernel launched just before.
template <class E>
__global__ void __launch_bounds__(block_threads) pack_kernel(const __grid_constant__ PackParams p) {
  constexpr int size = operand_bytes<E>, most_channels = 128 / size, unit = 16 / part_bytes<E>;
  constexpr int pitch = most_channels + 4 / static_cast<int>(sizeof(E));  // all banks are used
  constexpr int loads = packed_rows * most_channels / block_threads;      // in flight at once
  __shared__ E staged[packed_rows * pitch];
  __shared__ int packed_row[packed_rows], nonfinite;
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
  if (thread < piece.rows) packed_row[thread] = find_row(p, piece, piece.first + thread);
  if (thread == 0) nonfinite = 0;
  float scale = p.scale;
  if (std::is_same_v<E, Tf32AsF16> && p.scales != nullptr) {
    wait_for_kernel_before();
    const int filter = piece.band * p.band + (piece.first + own_row) / (p.taps * p.joined);
    if (filter < p.out_channels) scale = p.scales[filter];
  }
  if constexpr (std::is_same_v<E, SplitF16>) {
    wait_for_kernel_before();
    scale = least_scale(p);
  }
  __syncthreads();
  bool finite = scale != 0;
#pragma unroll
  for (int k = 0; k < loads; ++k) {
    weight[k] = scaled(weight[k], scale);
    staged[own_row * pitch + thread / packed_rows + k * (block_threads / packed_rows)] = weight[k];
    finite &= is_finite(weight[k]);
  }
  if (!finite) atomicOr(&nonfinite, 1);
  __syncthreads();
  for (int row = thread / warp_threads; row < packed_rows; row += block_threads / warp_threads)
    if (!does_for_row(staged + row * pitch)) atomicOr(&nonfinite, 1);
  const int units = p.row_bytes / 16, units_of_part = units / operand_parts<E>, columns = p.joined * p.band;
  auto* const to =
      static_cast<uint4*>(p.weights) + static_cast<std::int64_t>(piece.band) * p.taps * p.chunks * columns * units;
  for (int i = thread; i < piece.rows * units; i += block_threads) {
    const int row = i / units, index = packed_row[row];
    E values[unit];
#pragma unroll
    for (int k = 0; k < unit; ++k) values[k] = staged[row * pitch + i % units_of_part * unit + k];
    to[static_cast<std::int64_t>(index) * units + swizzled_unit(index % columns, i % units, p.row_bytes)] =
        packed_vector(values, i % units >= units_of_part);
  }
  __syncthreads();
  const int own = blockIdx.x, last = static_cast<int>(gridDim.x) - 1;
  if (thread == 0) p.nonfinite[own] = nonfinite != 0 ? 1 : 0;
  if (own == last && own + 1 + thread < flag_loads(last + 1) * 16) p.nonfinite[own + 1 + thread] = 0;
  wait_for_kernel_before();
}

}  // namespace

void launch_pack(const PackParams& p, Format format, int element, cudaStream_t stream, bool early) {
  const Launch how{static_cast<unsigned>(p.bands * p.chunks * p.pieces), stream, 0, early};
#define CONVT_FORMAT(name, E, own, ...)              \
  if (format == Format::own && element == sizeof(E)) \
    return launch(pack_kernel<typename InputOf<E, Format::own>::Type>, "the kernel that packs weights", how, p);
#include "cuda/sm90/config/formats.def"
#undef CONVT_FORMAT
}

}  // namespace convt::core::cuda::sm90
