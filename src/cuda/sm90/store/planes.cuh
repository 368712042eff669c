// SPDX-License-Identifier: Apache-2.0
// The staged store of planes: consumers put a plane into shared memory, and writers store it.
#pragma once

#include "cuda/sm90/loader/planes.cuh"
#include "cuda/sm90/mainloop/fragment.cuh"
#include "cuda/sm90/store/staging.cuh"
#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// Stages the results of one plane, 8 columns at a time. 16-bit results are stored as 8x8 matrices.
template <class To, int n, int m_tiles>
class PlaneStager {
  static constexpr bool in_blocks = sizeof(To) == 2;
  static constexpr int pitch = plane_pitch(sliding_roles.consumers * m_tiles * m_tile_rows, sizeof(To));

 public:
  __device__ explicit PlaneStager(unsigned char* memory) {
    static_assert(m_tiles == 2);
    const int group = threadIdx.x / group_threads, row = threadIdx.x % group_threads / warp_threads * 16;
    const int lane = threadIdx.x % warp_threads, part = lane / 8;
    to_ = staged_in<To, n>(memory) + group * m_tiles * m_tile_rows;
    if (in_blocks)
      to_ += lane % 8 * pitch + part / 2 * m_tile_rows + row + part % 2 * 8;
    else
      to_ += Fragment<n>::column(0) * pitch + Fragment<n>::row(0);
  }

  // See Writer.
  __device__ int channels() const { return n; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[1][m_tiles][4]) { put(i, x); });
  }

  __device__ void put(int i, const float (&x)[1][m_tiles][4]) const {
    if constexpr (in_blocks) {
      const auto pair = [&](int b, int half) { return pair_bits<To>(x[0][b][2 * half], x[0][b][2 * half + 1]); };
      store_transposed(to_ + 8 * i * pitch, pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1));
    } else {
#pragma unroll
      for (int b = 0; b < m_tiles; ++b)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          to_[(8 * i + k % 2) * pitch + b * m_tile_rows + k / 2 * 8] = element<To>(x[0][b][k]);
    }
  }

 private:
  To* to_;
};

// The rows that a writer thread stores of every plane of a tile. They are warp_threads apart, and found once for a
// tile.
template <class To, int count>
struct RowsOfPlanes {
  static constexpr int at_once = 4;  // channels; divides the columns

  To* to[count];  // of the first channel
  bool inside[count];
  int first;  // the first row

  // plane: the first plane.
  __device__ RowsOfPlanes(const ConvParams& p, const WorkTile& work, int plane) {
    const int top = work.tile[1] * p.axis[1].tile, left = work.tile[2] * p.axis[2].tile;
    const int height = min(p.axis[1].tile, p.axis[1].size - top), width = min(p.axis[2].tile, p.axis[2].size - left);
    const int thread = static_cast<int>(threadIdx.x) % group_threads;
    first = thread / warp_threads * count * warp_threads + thread % warp_threads;
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const int row = first + k * warp_threads, m_tile = row / m_tile_rows, own = row % m_tile_rows;
      const RunRow run(p, m_tile * m_tile_rows + own);
      const int h = p.run != 0 ? run.h : position_at(p, m_tile, own, 1);
      const int w = p.run != 0 ? run.w : position_at(p, m_tile, own, 2);
      inside[k] = h < height && w < width;
      to[k] = static_cast<To*>(p.to.data) + work.image * p.to.step.n + plane * p.to.step.d + (top + h) * p.to.step.h +
              (left + w) * p.to.step.w;
    }
  }

  // Stores one plane and advances to the next.
  __device__ void write(const ConvParams& p, const To* staged, int pitch) {
    To* at[count];
#pragma unroll
    for (int k = 0; k < count; ++k) at[k] = to[k];
    staged += first;
#pragma unroll 1
    for (int left = p.out_channels; left > 0; left -= at_once, staged += at_once * pitch) {
      To x[at_once][count];
#pragma unroll
      for (int c = 0; c < at_once; ++c)
#pragma unroll
        for (int k = 0; k < count; ++k) x[c][k] = staged[c * pitch + k * warp_threads];
#pragma unroll
      for (int c = 0; c < at_once; ++c)
#pragma unroll
        for (int k = 0; k < count; ++k)
          if (inside[k] && c < left) store_result(ahead(at[k], p.results.channel, c), x[c][k]);
#pragma unroll
      for (int k = 0; k < count; ++k) at[k] = ahead(at[k], p.results.channel, at_once);
    }
#pragma unroll
    for (int k = 0; k < count; ++k) to[k] += p.to.step.d;
  }
};

// The writers: store every plane that consumers have staged.
template <class Traits, class To>
__device__ void write_planes(const ConvParams& p, const Memory& memory) {
  constexpr int n = Traits::columns, m_tiles = Traits::m_tiles;
  constexpr int rows = sliding_roles.consumers * m_tiles * m_tile_rows;
  static_assert(rows % group_threads == 0 && n % RowsOfPlanes<To, 1>::at_once == 0);
  int phase = 0;
  for_each_plane_range<Traits>(p, [&](const PlaneRange& range) {
    RowsOfPlanes<To, rows / group_threads> own(p, range.work(p), range.first);
#pragma unroll 1
    for (int z = range.first; z < range.end; ++z, phase ^= 1) {
      wait(memory.shared.staged_full(), phase);
      own.write(p, staged_in<To, n>(memory.epilogue), plane_pitch(rows, sizeof(To)));
      staging_release(memory.shared);
    }
  });
}

}  // namespace convt::core::cuda::sm90
