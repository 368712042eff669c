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

// Where a pixel of the box is in the input; somewhere else where it is outside.
template <class E>
struct HaloPixel {
  const E* from;
  std::int64_t step;  // from one channel to the next
  bool inside;
};
template <class E>
__device__ HaloPixel<E> halo_pixel(const ConvParams& p, const Corner& corner, const E* image, int row) {
  const int line = row / p.axis[2].halo;
  const int at[3] = {line / p.axis[1].halo, line % p.axis[1].halo, row - line * p.axis[2].halo};
  HaloPixel<E> pixel{image, p.channel_step, row < p.halo_rows};
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int x = corner.at[a] + at[a];
    pixel.inside &= is_inside(p.axis[a], x);
    pixel.from += x * p.axis[a].step;
  }
  return pixel.inside ? pixel : HaloPixel<E>{static_cast<const E*>(p.there), 0, false};
}

// One chunk of channels of a box, by `fillers` threads of which this is one. Lanes have neighbouring pixels; each loads
// 32 elements without conditions, so that all of them are under way at once.
template <class E, int row_bytes>
__device__ void fill_rows(const ConvParams& p, const Corner& corner, int chunk, unsigned char* slot, int filler,
                          int fillers) {
  constexpr int channels = row_bytes / static_cast<int>(sizeof(E)), each = 16 / static_cast<int>(sizeof(E));
  constexpr int at_once = channels < 32 ? channels : 32, rows = 32 / at_once;
  const int there = min(channels, p.in_channels - chunk * channels);
  const E* const image = static_cast<const E*>(p.input) + corner.image * p.image_step +
                         static_cast<std::int64_t>(chunk) * channels * p.channel_step;
#pragma unroll 1
  for (int row = filler; row < p.halo_rows; row += fillers * rows) {
    E x[rows][at_once];
    HaloPixel<E> pixel[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) pixel[r] = halo_pixel(p, corner, image, row + r * fillers);
#pragma unroll
    for (int first = 0; first < channels; first += at_once) {
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int c = 0; c < at_once; ++c) {
          x[r][c] = *pixel[r].from;
          if (first + c + 1 < there) pixel[r].from += pixel[r].step;
        }
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const int own = row + r * fillers;
        if (r > 0 && own >= p.halo_rows) continue;
#pragma unroll
        for (int c = 0; c < at_once; c += each) {
#pragma unroll
          for (int k = c; k < c + each; ++k)
            if (!pixel[r].inside || first + k >= there) x[r][k] = E{};
          *reinterpret_cast<uint4*>(slot + own * row_bytes + place_in_row(own, (first + c) / each, row_bytes) * 16) =
              rounded_vector(x[r] + c);
        }
      }
    }
  }
}

// All chunks of a box, each to the ring's next slot.
template <class E>
__device__ void fill_box(const ConvParams& p, const Shared& shared, const Corner& corner, unsigned char* slots,
                         Ring& slot, int filler, int fillers) {
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait(shared.halo_empty(slot.place), slot.parity ^ 1);
    unsigned char* const to = slots + slot.place * p.slot_bytes;
    if (p.row_bytes == 128)
      fill_rows<E, 128>(p, corner, chunk, to, filler, fillers);
    else
      fill_rows<E, 64>(p, corner, chunk, to, filler, fillers);
    fence_async();
    __syncwarp();
    if (threadIdx.x % warp_threads == 0) arrive(shared.halo_full(slot.place));
    slot.next();
  }
}

}  // namespace convt::core::cuda::sm90
