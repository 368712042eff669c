// SPDX-License-Identifier: Apache-2.0
// The duplicated halo: every pixel is in shared memory twice, so that a thread holds four neighbouring outputs.
//
// A thread has two rows of a row tile, 8 rows apart, and groups of 8 rows are equally far apart in shared memory. In
// this halo an operand's row has 128 bytes: two pixels of 64 bytes each. An instruction reads one half of each row, so
// its rows are every other pixel of a line. A line is followed by its duplicate, shifted by one pixel. Even groups of
// rows read the line and hold even positions. Odd groups read the duplicate, which is half of the distance between two
// lines away, and hold odd positions. For every tap, both find their pixels at the same offset. So a thread's two rows
// are neighbours along w, and with two phases it holds four neighbouring outputs.
//
//   line        0 1 | 2 3 | 4 5 | ...   even positions, through a tap of shift 1: 1, 3, 5
//   duplicate   1 2 | 3 4 | 5 6 | ...   odd positions, through the same tap:      2, 4, 6
#pragma once

#include "cuda/sm90/loader/halo_rows.cuh"

namespace convt::core::cuda::sm90 {

// RowOffsets of the duplicated halo, before rows are swizzled.
template <int pixels>
struct DuplicatedRowOffsets : RowOffsets<pixels> {
  using R = RowOffsets<pixels>;
  static constexpr int alone = R::second;  // the first pixel of a line, which has no duplicate

  DuplicatedRowOffsets() = default;
  __device__ DuplicatedRowOffsets(const ConvParams& p, const HaloPart& part, int row_bytes, int bits) {
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const int w = part.at + k;
      R::offset[k] = (part.line * p.line_rows + w) * row_bytes | bits | (w == 0 ? alone : 0);
      if (pixels > 1 && static_cast<unsigned>(w) >= static_cast<unsigned>(p.axis[2].halo)) R::offset[k] |= R::absent;
    }
  }
};
// Stores a unit of a pixel twice. offset: of the first copy; bytes: offset of the unit in the row.
__device__ inline void store_duplicated(const ConvParams& p, unsigned char* halo_stage, int offset, int row_bytes,
                                        int bytes, const uint4& unit) {
  int line = p.line_rows;
  opaque(line);  // recomputed, to save registers
  const int first = offset & -16, second = first + (line / 2 - 1) * row_bytes;
  *reinterpret_cast<uint4*>(halo_stage + (swizzle_duplicated(first) ^ bytes)) = unit;
  if ((offset & DuplicatedRowOffsets<1>::alone) == 0)
    *reinterpret_cast<uint4*>(halo_stage + (swizzle_duplicated(second) ^ bytes)) = unit;
}

}  // namespace convt::core::cuda::sm90
