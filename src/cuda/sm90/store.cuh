// SPDX-License-Identifier: Apache-2.0
// Sums to the output. Column by column for all rows of a thread: rows that are not there take a predicate each and no
// comparison.
#pragma once

#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/lines.cuh"

namespace convt::core::cuda::sm90 {

template <class E>
__device__ E element(float x) {
  if constexpr (sizeof(E) == sizeof(float))
    return x;
  else if constexpr (std::is_same_v<E, convt_f16>)
    return {__half_as_ushort(__float2half_rn(x))};
  else
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
// Two neighbours in memory.
__device__ inline void put_pair(float* to, float x, float y) { *reinterpret_cast<float2*>(to) = {x, y}; }
__device__ inline void put_pair(convt_f16* to, float x, float y) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(x, y);
}
__device__ inline void put_pair(convt_bf16* to, float x, float y) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
}

// Where the rows of a thread go, at its first column, in elements of the output; of a joint phase, the first one's. No
// pointers: where there are two ways to find them, the compiler no longer knows that they are of global memory.
template <int blocks>
struct Rows {
  std::int64_t to[2 * blocks];
  bool there[2 * blocks], next[2 * blocks];  // the outputs of this phase and of the next one along w
};
// The outputs of one plane of a run.
template <int n, int blocks>
__device__ Rows<blocks> rows_of_run(const ConvParams& p, const Item& item, int plane) {
  Rows<blocks> rows;
  int group = threadIdx.x / group_threads, row = Sums<n>::row(0), column = Sums<n>::column(0);
  forget(group);  // rows are found again for each plane: registers are short
  forget(row);
  forget(column);
  const Strides& step = p.to.step;
  const int top = item.tile[1] * p.axis[1].tile, left = item.tile[2] * p.axis[2].tile;
  const int height = min(p.axis[1].tile, p.axis[1].size - top), width = min(p.axis[2].tile, p.axis[2].size - left);
  const std::int64_t first = item.image * step.n + plane * step.d + top * step.h + left * step.w + column * step.c;
#pragma unroll
  for (int r = 0; r < 2 * blocks; ++r) {
    const RunRow at(p, group * blocks + r / 2, row + r % 2 * 8);
    rows.there[r] = at.h < height && at.w < width;
    rows.next[r] = false;
    rows.to[r] = first + at.h * step.h + at.w * step.w;
  }
  return rows;
}
// The outputs of one phase, or of all of a position's.
template <int n, int blocks>
__device__ Rows<blocks> rows_of(const ConvParams& p, const Item& item, const int (&phase)[3]) {
  Rows<blocks> rows;
  int group = threadIdx.x / group_threads, row = Sums<n>::row(0), column = Sums<n>::column(0);
  forget(group);  // rows are found again for each phase: registers are short
  forget(row);
  forget(column);
  const Strides& step = p.to.step;
  std::int64_t first =
      item.image * step.n + item.band * n * step.c + phase[0] * step.d + phase[1] * step.h + phase[2] * step.w;
#pragma unroll
  for (int a = 0; a < 3; ++a) first += item.tile[a] * p.results.tile[a];
  first += row / 8 * p.results.group + row % 8 * p.results.position + column * step.c;
#pragma unroll
  for (int r = 0; r < 2 * blocks; ++r) {
    const int block = group * blocks + r / 2, half = r % 2;
    int out[3];
    rows.there[r] = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const ConvAxis& axis = p.axis[a];
      const int position = item.tile[a] * axis.tile + position_at(p, block, row, a) + half * p.group_step[a];
      out[a] = position * axis.stride + phase[a];
      rows.there[r] &= out[a] < axis.size;
    }
    rows.next[r] = rows.there[r] && phase[2] + 1 < p.axis[2].stride && out[2] + 1 < p.axis[2].size;
    rows.to[r] = first + p.results.block[block] + half * p.results.group;
  }
  return rows;
}

// Writes sums of one phase, or of two neighbours along w, as elements of type E: 8 columns at a time, from the first
// on. Tiles may be runs where they march.
template <class E, bool marches, int n, int joint, int blocks>
class Writer {
 public:
  __device__ Writer(const ConvParams& p, const Item& item, const int (&phase)[3])
      : rows_(marches && p.run != 0 ? rows_of_run<n, blocks>(p, item, phase[0]) : rows_of<n, blocks>(p, item, phase)),
        step_(p.to.step.c * size),
        neighbour_(p.to.step.w * size),
        channels_(p.out_channels - item.band * n),
        paired_(joint == 2 && p.paired) {
#pragma unroll
    for (int r = 0; r < 2 * blocks; ++r) to_[r] = reinterpret_cast<char*>(static_cast<E*>(p.to.data) + rows_.to[r]);
    forget(step_);  // or the compiler multiplies for every row and column
  }

  // x: of the columns 8*i and on, by phase, block, row and column.
  __device__ void put(int i, const float (&x)[joint][blocks][4]) {
    if (8 * i >= channels_) return;
    if (paired_) {
      write(i, false,
            [&](E* to, int r, int k) { put_pair(to, x[0][r / 2][r % 2 * 2 + k], x[joint - 1][r / 2][r % 2 * 2 + k]); });
      return;
    }
    const auto each = [&](E* to, int r, int k) {
      *to = element<E>(x[0][r / 2][r % 2 * 2 + k]);
      if (joint == 2 && rows_.next[r])
        *reinterpret_cast<E*>(reinterpret_cast<char*>(to) + neighbour_) =
            element<E>(x[joint - 1][r / 2][r % 2 * 2 + k]);
    };
    if (channels_ % 8 == 0)
      write(i, false, each);
    else
      write(i, true, each);
  }

 private:
  static constexpr std::int64_t size = sizeof(E);

  template <class Put>
  __device__ void write(int i, bool ragged, const Put& put_one) {
    const int own = channels_ - Sums<n>::column(i);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int r = 0; r < 2 * blocks; ++r)
        if (rows_.there[r] && (!ragged || k < own)) put_one(reinterpret_cast<E*>(to_[r] + k * step_), r, k);
    }
#pragma unroll
    for (char*& to : to_) to += 8 * step_;
  }

  Rows<blocks> rows_;
  char* to_[2 * blocks];
  std::int64_t step_, neighbour_;  // bytes
  int channels_;                   // from the band's first on
  bool paired_;
};

}  // namespace convt::core::cuda::sm90
