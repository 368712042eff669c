// SPDX-License-Identifier: Apache-2.0
// Halo tiles: boxes of inputs, [pixel][channel], in shared memory.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace convt::core::cuda::sm90 {

// The first input of a box, in positions of the slab; it may be outside the image.
struct Corner {
  int image, at[3];
};
__device__ inline Corner corner_of(const ConvParams& p, const Item& item) {
  Corner corner{item.image, {}};
#pragma unroll
  for (int a = 0; a < 3; ++a) corner.at[a] = item.tile[a] * p.axis[a].tile + p.axis[a].first;
  return corner;
}
__device__ inline bool is_inside(const ConvAxis& axis, int x) {
  return static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
}

// Where a pixel of the box is in the input; another pixel where it is outside.
template <class E>
struct HaloPixel {
  const E* from;
  bool inside;
};
template <class E>
__device__ HaloPixel<E> halo_pixel(const ConvParams& p, const Corner& corner, std::int64_t first, int row) {
  const int line = row / p.axis[2].halo;
  const int at[3] = {line / p.axis[1].halo, line % p.axis[1].halo, row - line * p.axis[2].halo};
  std::int64_t offset = corner.image * p.image_step;
  bool inside = row < p.halo_rows;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int x = corner.at[a] + at[a];
    inside &= is_inside(p.axis[a], x);
    offset += x * p.axis[a].step;
  }
  return {(inside ? static_cast<const E*>(p.input) + offset : static_cast<const E*>(p.there)) + first, inside};
}

// A thread that fills boxes together with others. Whoever has a row more than others in one box has fewer in the next.
struct Filler {
  int first, threads;  // first: the row to begin with

  __device__ void next(int rows) {
    first -= (rows + warp_threads - 1) / warp_threads * warp_threads % threads;
    if (first < 0) first += threads;
  }
};

// One chunk of channels of a box. Lanes have neighbouring pixels; each loads so many elements without conditions, so
// that all of them are under way at once; `full` where all channels of the chunk are there.
template <class E, int loads, int row_bytes, bool full>
__device__ void fill_rows(const ConvParams& p, const Corner& corner, int chunk, unsigned char* slot,
                          const Filler& filler) {
  constexpr int channels = row_bytes / static_cast<int>(sizeof(E)), each = 16 / static_cast<int>(sizeof(E));
  constexpr int at_once = channels < loads ? channels : loads, rows = loads / at_once;
  const int there = min(channels, p.in_channels - chunk * channels);
  const std::int64_t channel_bytes = p.channel_step * static_cast<std::int64_t>(sizeof(E));
  const std::int64_t first_channel = static_cast<std::int64_t>(chunk) * channels * p.channel_step;
#pragma unroll 1
  for (int row = filler.first; row < p.halo_rows; row += filler.threads * rows) {
    E x[rows][at_once];
    HaloPixel<E> pixel[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) pixel[r] = halo_pixel<E>(p, corner, first_channel, row + r * filler.threads);
#pragma unroll 1
    for (int first = 0; first < channels; first += at_once) {
      int left = there - first;
      forget(left);  // or 32 comparisons are kept
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int c = 0; c < at_once; ++c) x[r][c] = load_next(pixel[r].from, full || c + 1 < left ? channel_bytes : 0);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const int own = row + r * filler.threads;
        if (r > 0 && own >= p.halo_rows) continue;
#pragma unroll
        for (int c = 0; c < at_once; c += each) {
#pragma unroll
          for (int k = c; k < c + each; ++k)
            if (!pixel[r].inside || (!full && k >= left)) x[r][k] = E{};
          *reinterpret_cast<uint4*>(slot + own * row_bytes + place_in_row(own, (first + c) / each, row_bytes) * 16) =
              rounded_vector(x[r] + c);
        }
      }
    }
  }
}

__device__ inline uint4 rounded_units(const uint4& x, float) {
  const float values[] = {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
  return rounded_vector(values);
}
template <class E>
__device__ uint4 rounded_units(const uint4& x, E) {
  return x;
}
// The same where a pixel's channels are neighbours in memory: units of 16 bytes.
template <class E>
__device__ void fill_units(const ConvParams& p, const Corner& corner, int chunk, unsigned char* slot,
                           const Filler& filler) {
  constexpr int each = 16 / static_cast<int>(sizeof(E)), at_once = 4;
  const int units = p.row_bytes / 16, there = p.in_channels / each - chunk * units;
#pragma unroll 1
  for (int first = filler.first; first < p.halo_rows * units; first += filler.threads * at_once) {
    uint4 x[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * filler.threads, unit = at % units;
      const HaloPixel<E> pixel = halo_pixel<E>(p, corner, (chunk * units + unit) * each, at / units);
      x[i] = uint4{0, 0, 0, 0};
      if (pixel.inside && unit < there) x[i] = __ldg(reinterpret_cast<const uint4*>(pixel.from));
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * filler.threads, row = at / units;
      if (row < p.halo_rows)
        *reinterpret_cast<uint4*>(slot + row * p.row_bytes + place_in_row(row, at % units, p.row_bytes) * 16) =
            rounded_units(x[i], E{});
    }
  }
}

// All chunks of a box, each to the ring's next slot.
template <class E, int loads>
__device__ void fill_box(const ConvParams& p, const Shared& shared, const Corner& corner, unsigned char* slots,
                         Ring& slot, Filler& filler) {
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait(shared.halo_empty(slot.place), slot.parity ^ 1);
    unsigned char* const to = slots + slot.place * p.slot_bytes;
    const bool full = (chunk + 1) * p.row_bytes <= p.in_channels * static_cast<int>(sizeof(E));
    if (p.units)
      fill_units<E>(p, corner, chunk, to, filler);
    else if (p.row_bytes == 128)
      full ? fill_rows<E, loads, 128, true>(p, corner, chunk, to, filler)
           : fill_rows<E, loads, 128, false>(p, corner, chunk, to, filler);
    else
      full ? fill_rows<E, loads, 64, true>(p, corner, chunk, to, filler)
           : fill_rows<E, loads, 64, false>(p, corner, chunk, to, filler);
    filler.next(p.halo_rows);
    fence_async();
    __syncwarp();
    if (threadIdx.x % warp_threads == 0) arrive(shared.halo_full(slot.place));
    slot.next();
  }
}

}  // namespace convt::core::cuda::sm90
