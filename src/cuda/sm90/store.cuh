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
// How many phases of each axis are outputs at a thread's rows: found once for a tile. Four bits each, in this order.
template <int blocks>
struct Bounds {
  int of[blocks];  // of both rows, 16 bits each

  __device__ Bounds(const ConvParams& p, const Item& item) {
    int group = threadIdx.x / group_threads, row = Sums<8>::row(0);
    forget(group);
    forget(row);
#pragma unroll
    for (int r = 0; r < 2 * blocks; ++r) {
      if (r % 2 == 0) of[r / 2] = 0;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int position =
            item.tile[a] * axis.tile + position_at(p, group * blocks + r / 2, row, a) + r % 2 * p.group_step[a];
        of[r / 2] |= min(max(axis.size - position * axis.stride, 0), axis.stride) << (4 * a + 16 * (r % 2));
      }
    }
  }
  __device__ int phases(int r, int a) const { return of[r / 2] >> (4 * a + 16 * (r % 2)) & 15; }
};

// The outputs of one phase, or of all of a position's.
template <int n, int blocks>
__device__ Rows<blocks> rows_of(const ConvParams& p, const Item& item, Bounds<blocks> bounds, const int (&phase)[3]) {
  Rows<blocks> rows;
  int group = threadIdx.x / group_threads, row = Sums<n>::row(0), column = Sums<n>::column(0);
  forget(group);  // rows are found again for each phase: registers are short
  forget(row);
  forget(column);
#pragma unroll
  for (int& bits : bounds.of) forget(bits);  // or what they tell is kept
  const Strides& step = p.to.step;
  std::int64_t first =
      item.image * step.n + item.band * n * step.c + phase[0] * step.d + phase[1] * step.h + phase[2] * step.w;
#pragma unroll
  for (int a = 0; a < 3; ++a) first += item.tile[a] * p.results.tile[a];
  first += row / 8 * p.results.group + row % 8 * p.results.position + column * step.c;
#pragma unroll
  for (int r = 0; r < 2 * blocks; ++r) {
    rows.there[r] = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) rows.there[r] &= phase[a] < bounds.phases(r, a);
    rows.next[r] = rows.there[r] && phase[2] + 1 < bounds.phases(r, 2);
    rows.to[r] = first + p.results.block[group * blocks + r / 2] + r % 2 * p.results.group;
  }
  return rows;
}

// Writes sums of one phase, or of two neighbours along w, as elements of type E: 8 columns at a time, from the first
// on.
template <class E, int n, int joint, int blocks>
class Writer {
 public:
  __device__ Writer(const ConvParams& p, const Rows<blocks>& rows, int band)
      : rows_(rows),
        step_(p.to.step.c * size),
        neighbour_(p.to.step.w * size),
        channels_(p.out_channels - band * n),
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
