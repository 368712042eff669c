// SPDX-License-Identifier: Apache-2.0
// The writer of direct stores. Offsets are computed once for all tiles; a tile and a phase add theirs, and a column
// takes one instruction. Each row has a predicate for whether it is inside the output.
#pragma once

#include "cuda/sm90/mainloop/fragment.cuh"
#include "cuda/sm90/pipeline/shared_memory.cuh"

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
// Two neighbours of 16 bits, the first one in the low half.
template <class E>
__device__ unsigned pair_bits(float x, float y) {
  unsigned bits;
  if constexpr (std::is_same_v<E, convt_f16>) {
    const __half2 pair = __floats2half2_rn(x, y);
    memcpy(&bits, &pair, sizeof bits);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}
// Two neighbours in memory.
template <class E>
using Pair = std::conditional_t<sizeof(E) == sizeof(float), float2, unsigned>;
template <class E>
__device__ Pair<E> pair_of(float x, float y) {
  if constexpr (sizeof(E) == sizeof(float))
    return {x, y};
  else
    return pair_bits<E>(x, y);
}

// Which phases of a thread's two rows are outside the output: 4 bits for each axis, 16 for each row. The 4 bits hold 8
// less the number of valid phases: adding a phase's number sets their highest bit if the phase is outside.
struct Missing {
  static constexpr int outside = 0x0888, row_bits = 16;
  int of;

  // b: a row tile of the warpgroup. Recomputed for each phase, to save registers.
  __device__ Missing(const ConvParams& p, const Memory& memory, int b, int m_tiles) : of(p.missing) {
    if (of != 0) return;
    const int thread = memory.consumer();
    const WorkTile& work = *memory.work();
    const int m_tile = thread / group_threads * m_tiles + b, row = Fragment<8>::row(0, thread);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int position = work.tile[a] * axis.tile + position_at(p, m_tile, row, a) + half * p.group_step[a];
        const int phases = min(max(axis.size - position * axis.stride, 0), axis.stride);
        of |= (8 - phases) << (4 * a + row_bits * half);
      }
  }
};

// Finds the offset of a thread's outputs from the tile's first output, in elements: for each row tile, of its first row
// and first column in the first phase; for stores of vectors, of its warp's. Called once for all tiles; offsets are
// kept in shared memory, to save registers.
template <int n, int m_tiles, bool vectors, bool duplicated = false>
__device__ void find_output_offsets(const ConvParams& p, const Memory& memory) {
  const int thread = memory.consumer();
  const int group = thread / group_threads, row = Fragment<n>::row(0, thread), column = Fragment<n>::column(0, thread);
  constexpr int apart = duplicated ? 2 : 1;  // neighbouring threads' positions
  std::int64_t first = static_cast<std::int64_t>(row / 8 / apart) * p.results.group;
  if (vectors && p.vectors) {
    *memory.warp_output_offset() = first + p.results.m_tile[group];  // all lanes write the same value
    return;
  }
  first += column * p.to.step.c + row % 8 * apart * p.results.position;
#pragma unroll
  for (int b = 0; b < m_tiles; ++b) memory.output_offset()[b] = first + p.results.m_tile[group * m_tiles + b];
}

// Writes sums of one phase, or of two neighbours along w, as elements of type E, 8 columns at a time.
template <class E, int n, int joint, int m_tiles>
class Writer {
 public:
  // channels: of the results.
  __device__ Writer(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance, int channels)
      : step_(p.results.channel),
        neighbour_(p.results.neighbour),
        channels_(uniform(channels - memory.work()->band * n)),
        paired_(joint == 2 && p.paired) {
#pragma unroll
    for (int b = 0; b < m_tiles; ++b) {
      const int missing = Missing(p, memory, b, m_tiles).of + phase, next = missing + phase_bits(0, 0, 1);
      to_[2 * b] = static_cast<E*>(p.to.data) + (memory.output_offset()[b] + memory.work()->result + distance);
      to_[2 * b + 1] = ahead(to_[2 * b], p.results.group, 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int outside = Missing::outside;
        valid_[2 * b + half] = (missing & outside << half * Missing::row_bits) == 0;
        next_[2 * b + half] = (next & outside << half * Missing::row_bits) == 0;
      }
    }
  }

  __device__ int channels() const { return channels_; }
  // Calls f(put), where put(i, x) stores the columns from 8*i on: x[phase][row tile][row and column]. f is instantiated
  // twice. The first instance has little code: it stores whole groups of 8 columns, and joint phases as one.
  template <class F>
  __device__ void with_put(F&& f) const {
    if (joint == 2 ? paired_ : channels_ % 8 == 0)
      f([&](int i, const float(&x)[joint][m_tiles][4]) { put_whole(i, x); });
    else
      f([&](int i, const float(&x)[joint][m_tiles][4]) { put_each(i, x); });
  }

 private:
  __device__ void put_whole(int i, const float (&x)[joint][m_tiles][4]) const {
    write(i, false, [&](E* to, int r, int k) {
      if constexpr (joint == 2)
        store_result(reinterpret_cast<Pair<E>*>(to),
                     pair_of<E>(x[0][r / 2][r % 2 * 2 + k], x[1][r / 2][r % 2 * 2 + k]));
      else
        store_result(to, element<E>(x[0][r / 2][r % 2 * 2 + k]));
    });
  }
  __device__ void put_each(int i, const float (&x)[joint][m_tiles][4]) const {
    const auto each = [&](E* to, int r, int k) {
      store_result(to, element<E>(x[0][r / 2][r % 2 * 2 + k]));
      if (joint == 2 && next_[r])
        store_result(ahead(to, neighbour_, 1), element<E>(x[joint - 1][r / 2][r % 2 * 2 + k]));
    };
    if (joint == 2 && channels_ % 8 == 0)
      write(i, false, each);
    else
      write(i, true, each);
  }

  template <class Put>
  __device__ void write(int i, bool ragged, const Put& put_one) const {
    int channels = channels_, thread = threadIdx.x;
    if (ragged) {  // recomputed: else the compiler keeps predicates of all columns from phase to phase
      opaque(channels);
      opaque(thread);
    }
    const int own = channels - Fragment<n>::column(0, thread);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int r = 0; r < 2 * m_tiles; ++r) {
        E* const to = ahead(to_[r], step_, 8 * i + k);
        if (valid_[r] && (!ragged || 8 * i + k < own)) put_one(to, r, k);
      }
  }

  E* to_[2 * m_tiles];
  bool valid_[2 * m_tiles], next_[2 * m_tiles];  // the outputs of this phase and of the next one along w
  std::uint32_t step_, neighbour_;               // in elements: of columns, and of phases along w
  int channels_;
  bool paired_;
};

}  // namespace convt::core::cuda::sm90
