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

// Where the rows of a thread go, at its first column; of a joint phase, the first one's.
template <class E, int blocks>
struct Rows {
  char* to[2 * blocks];
  bool there[2 * blocks], next[2 * blocks];  // the outputs of this phase and of the next one along w
};
// The outputs of one phase, or of all of a position's.
template <class E, int n, int blocks>
__device__ Rows<E, blocks> rows_of(const ConvParams& p, const Item& item, const int (&phase)[3]) {
  Rows<E, blocks> rows;
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
    E* const to = static_cast<E*>(p.to.data) + first + p.results.block[block];
    rows.to[r] = reinterpret_cast<char*>(to + half * p.results.group);
  }
  return rows;
}

// put(place, block, index of the sum, what load(pair of columns) gave). `step`: bytes of a channel. `channels`: from
// the band's first on; ragged where they are no multiple of 8.
template <int n, bool ragged, class E, int blocks, class Load, class Put>
__device__ void store_columns(const Rows<E, blocks>& rows, std::int64_t step, int channels, const Load& load,
                              const Put& put) {
  const int own = channels - Sums<n>::column(0);
  std::int64_t at = 0, others = 7 * step;
  forget(step);  // or the compiler multiplies for every row and column
  forget(others);
  auto next = load(0);
#pragma unroll
  for (int i = 0; i < n / 8; ++i) {
    if (8 * i >= channels) break;
    const auto loaded = next;
    if (i + 1 < n / 8) next = load(i + 1);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int r = 0; r < 2 * blocks; ++r)
        if (rows.there[r] && (!ragged || 8 * i + k < own))
          put(reinterpret_cast<E*>(rows.to[r] + at), r / 2, 4 * i + 2 * (r % 2) + k, loaded);
      at += k == 0 ? step : others;
    }
  }
}

// As elements of type E. Late: pairs go through the chain's last line as they are stored, be it there or not. Its
// results fall into neighbouring registers, which sums would have to be moved to.
template <class E, int n, bool late, int joint, int blocks>
__device__ void store(const ConvParams& p, const Item& item, const int (&phase)[3], const Lines<n>& lines,
                      const float (&x)[joint][blocks][n / 2]) {
  constexpr std::int64_t size = sizeof(E);
  const std::int64_t step = p.to.step.c * size;
  const int channels = p.out_channels - item.band * n;
  Rows<E, blocks> rows = rows_of<E, n, blocks>(p, item, phase);
  if (joint == 2 && p.paired) {
    const auto load = [&](int i) { return late ? lines.at(ShortChain::last, i) : float4{}; };
    store_columns<n, false>(rows, step, channels, load, [&](E* to, int b, int i, const float4& line) {
      const auto ended = [&](float v) {
        return !late ? v : i % 2 == 0 ? fmaf(line.x, v, line.y) : fmaf(line.z, v, line.w);
      };
      put_pair(to, ended(x[0][b][i]), ended(x[joint - 1][b][i]));
    });
    return;
  }
#pragma unroll
  for (int j = 0; j < joint; ++j) {
    const auto nothing = [](int) { return 0; };
    const auto put = [&](E* to, int b, int i, int) { *to = element<E>(x[j][b][i]); };
    if (channels % 8 == 0)
      store_columns<n, false>(rows, step, channels, nothing, put);
    else
      store_columns<n, true>(rows, step, channels, nothing, put);
#pragma unroll
    for (int r = 0; r < 2 * blocks; ++r) {
      rows.there[r] = rows.next[r];
      rows.to[r] += p.to.step.w * size;
    }
  }
}

}  // namespace convt::core::cuda::sm90
