// SPDX-License-Identifier: Apache-2.0
// The accumulator fragment: which positions and output channels a thread's sums belong to.
#pragma once

#include "cuda/chain/element.cuh"
#include "cuda/sm90/scheduler/work_tile.cuh"

namespace convt::core::cuda::sm90 {

// The position of a row of a row tile along an axis. duplicated: every other group of 8 rows has the odd positions of
// 16 along w (loader/duplicated_halo.cuh).
template <bool duplicated = false>
__device__ int position_at(const ConvParams& p, int m_tile, int row, int a) {
  constexpr int shift = duplicated ? 1 : 0;
  const int group = row / 8;
  return p.origin[m_tile][a] + (group >> shift) * p.group_step[a] + (a == 2 ? (row % 8 << shift) + (group & shift) : 0);
}
// The position of a row of a run, which has at most 256 rows. The last rows of each line are no positions.
struct RunRow {
  int h, w;

  __device__ RunRow(const ConvParams& p, int row) {
    h = row * p.run >> 16;
    w = row - h * p.axis[2].halo;
  }
};

// A thread has two rows of a row tile and n / 4 columns of each; four neighbouring threads have all columns of a row.
template <int n>
struct Fragment {
  __device__ static int row(int half, unsigned thread = threadIdx.x) {
    return thread % group_threads / warp_threads * 16 + thread % warp_threads / 4 + half * 8;
  }
  __device__ static int column(int pair, unsigned thread = threadIdx.x) { return pair * 8 + thread % 4 * 2; }
};

// The output of a row in a phase; its image is -1 outside the output.
__device__ inline Pixel pixel_at(const ConvParams& p, const WorkTile& work, int phase, int m_tile, int row) {
  int out[3];
  bool inside = true;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    out[a] = (work.tile[a] * axis.tile + position_at(p, m_tile, row, a)) * axis.stride + phase_along(phase, a);
    inside &= out[a] < axis.size;
  }
  return {inside ? work.image : -1, out[0], out[1], out[2]};
}

// The fragment with swapped operands: [group of 8 positions][channel][position]. A thread has two output channels, and
// two neighbouring positions of every group.
struct SwappedFragment {
  static constexpr int groups = swapped_positions / 8, each = 4;
  __device__ static int channel(int half) {
    return threadIdx.x % group_threads / warp_threads * 16 + threadIdx.x % warp_threads / 4 + half * 8;
  }
  __device__ static int position() { return threadIdx.x % 4 * 2; }  // the first one in a group
};

}  // namespace convt::core::cuda::sm90
