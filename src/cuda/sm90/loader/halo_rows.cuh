// SPDX-License-Identifier: Apache-2.0
// Rows of a halo tile: their pixels in the input, and their offsets in a stage.
#pragma once

#include <type_traits>

#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/pipeline/pipeline.cuh"

namespace convt::core::cuda::sm90 {

// The first input of a box, in positions of the slab; it may be outside the image.
struct Corner {
  int image, at[3];
};
__device__ inline Corner corner_of(const ConvParams& p, const WorkTile& work) {
  Corner corner{work.image, {}};
#pragma unroll
  for (int a = 0; a < 3; ++a) corner.at[a] = work.tile[a] * p.axis[a].tile + p.axis[a].first;
  return corner;
}
__device__ inline bool is_inside(const ConvAxis& axis, int x) {
  return static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
}

// What a lane loads at once: a pixel, or two neighbours along w (ConvParams::pairs).
template <class E, int pixels>
using Loaded = std::conditional_t<pixels == 2, PixelPair, E>;
// Calls f.operator()<pixels>().
template <class E, class F>
__device__ void with_pixels(const ConvParams& p, F&& f) {
  if constexpr (sizeof(E) == 2) {
    if (p.pairs) return f.template operator()<2>();
  }
  f.template operator()<1>();
}

// The lines of a box along w, cut into parts that one load brings. Pairs are aligned to 4 bytes, as the lines of the
// image are. So the first and the last pair of a line may hold one pixel outside it.
template <class E, int pixels>
struct HaloLines {
  int before = 0;  // pixels of the first part that precede the line
  int parts;       // of a line; some may be empty (loader/planes.cuh)

  __device__ HaloLines(const ConvParams& p, const Corner& corner) {
    if (pixels > 1)
      before = (static_cast<int>(reinterpret_cast<std::uintptr_t>(p.input) / sizeof(E)) + corner.at[2]) & 1;
    parts = (p.axis[2].halo + before + pixels - 1) / pixels;
  }
  __device__ int all(const ConvParams& p) const {
    return pixels == 1 ? p.halo_rows : p.axis[0].halo * p.axis[1].halo * parts;
  }
};
struct HaloPart {
  int line, at;  // at: its first pixel, along w

  template <class E, int pixels>
  __device__ HaloPart(const HaloLines<E, pixels>& lines, int part) : HaloPart(lines, part, part / lines.parts) {}
  template <class E, int pixels>
  __device__ HaloPart(const ConvParams& p, const HaloLines<E, pixels>& lines, int part)
      : HaloPart(lines, part, p.parts[pixels == 1 ? 0 : 1 + lines.before].quotient(part)) {}
  template <class E, int pixels>
  __device__ HaloPart(const HaloLines<E, pixels>& lines, int part, int line_)
      : line(line_), at((part - line * lines.parts) * pixels - lines.before) {}
};

// The pixel of a pair that this lane stores first. If all lanes began with their first pixels, they would store to
// every other row. So 4 of 8 lanes begin with their second pixels, and the 8 cover all banks. In the duplicated halo,
// all lanes begin with the first.
template <int pixels, bool duplicated = false>
__device__ int first_pixel() {
  if (pixels == 1 || duplicated) return 0;
  int thread = threadIdx.x;
  opaque(thread);  // recomputed, to save registers
  return (thread & 4) != 0 ? 1 : 0;
}
// Offsets of a part's rows in a stage, in the order of stores. The low 4 bits of an offset are 0 and hold flags, to
// save registers.
template <int pixels>
struct RowOffsets {
  static constexpr int inside = 1, second = 2, absent = 4,
                       none = 8;  // inside the image; second half of channels; no row; no part
  int offset[pixels];

  RowOffsets() = default;
  __device__ RowOffsets(const ConvParams& p, const HaloPart& part, int row_bytes, int bits) {
    const int first = first_pixel<pixels>();
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const int w = part.at + (k ^ first), row = part.line * p.axis[2].halo + w;
      offset[k] = (row * row_bytes + swizzled_unit(row, 0, row_bytes) * 16) | bits;
      if (pixels > 1 && static_cast<unsigned>(w) >= static_cast<unsigned>(p.axis[2].halo)) offset[k] |= absent;
    }
  }
  __device__ int at(int k) const {
    int value = offset[k];
    opaque(value);  // recomputed, to save registers
    return value;
  }
};

// The next channels of one pixel, as 16 bytes of an operand.
template <class E>
__device__ uint4 unit_of(const E* x, int) {
  return rounded_vector(x);
}
__device__ inline uint4 unit_of(const PixelPair* x, int pixel) {
  const unsigned halves = pixel == 0 ? 0x5410 : 0x7632;
  const auto pair = [&](int i) { return __byte_perm(x[i].bits, x[i + 1].bits, halves); };
  return {pair(0), pair(2), pair(4), pair(6)};
}

// The address of a part in the input, or any valid address if it is outside the image. Both pixels of a pair are
// inside, or none.
template <class E>
struct HaloPixel {
  const E* from;
  bool inside;
};
template <class E>
__device__ HaloPixel<E> halo_pixel(const ConvParams& p, const Corner& corner, std::int64_t first,
                                   const HaloPart& part) {
  const int plane = p.plane_lines.quotient(part.line), at[3] = {plane, part.line - plane * p.axis[1].halo, part.at};
  std::int64_t offset = corner.image * p.image_step;
  bool inside = part.line * p.axis[2].halo + part.at < p.halo_rows;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int x = corner.at[a] + at[a];
    inside &= is_inside(p.axis[a], x);
    offset += x * p.axis[a].step;
  }
  return {(inside ? static_cast<const E*>(p.input) + offset : static_cast<const E*>(p.any_pixel)) + first, inside};
}

}  // namespace convt::core::cuda::sm90
