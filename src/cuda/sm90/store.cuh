// SPDX-License-Identifier: Apache-2.0
// Sums to the output. What finds an address is done once for all tiles: a tile and a phase add their distances to it,
// and a column takes one instruction. Rows that are not there take a predicate each and no comparison.
#pragma once

#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/rings.cuh"

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

// Which phases of a thread's rows are outputs, for the two rows of a block: 4 bits for each axis, of 16 for each row.
// They hold 8 less the number of phases that are, so that adding a phase's numbers sets the highest of them where it is
// none.
struct Missing {
  static constexpr int outside = 0x0888, row_bits = 16;
  int of;

  // Of block b of a warpgroup's. Found again for each phase: registers are short.
  __device__ Missing(const ConvParams& p, const Memory& memory, int b, int blocks) : of(p.missing) {
    if (of != 0) return;
    const int thread = memory.consumer();
    const Item& item = *memory.item();
    const int block = thread / group_threads * blocks + b, row = Sums<8>::row(0, thread);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const ConvAxis& axis = p.axis[a];
        const int position = item.tile[a] * axis.tile + position_at(p, block, row, a) + half * p.group_step[a];
        const int phases = min(max(axis.size - position * axis.stride, 0), axis.stride);
        of |= (8 - phases) << (4 * a + row_bits * half);
      }
  }
};

// Where a thread's rows go, from the tile's first output on, in the first phase and at its first column; of a block,
// the first of its two rows. Where results may be stored as vectors and are, the first row and column of its warp. Once
// for all tiles, in elements of the output, in shared memory: registers are short.
template <int n, int blocks, bool vectors, bool twins = false>
__device__ void find_places(const ConvParams& p, const Memory& memory) {
  const int thread = memory.consumer();
  const int group = thread / group_threads, row = Sums<n>::row(0, thread), column = Sums<n>::column(0, thread);
  constexpr int apart = twins ? 2 : 1;  // neighbouring threads' positions
  std::int64_t first = static_cast<std::int64_t>(row / 8 / apart) * p.results.group;
  if (vectors && p.vectors) {
    *memory.warp_place() = first + p.results.block[group];  // by all lanes alike
    return;
  }
  first += column * p.to.step.c + row % 8 * apart * p.results.position;
#pragma unroll
  for (int b = 0; b < blocks; ++b) memory.place()[b] = first + p.results.block[group * blocks + b];
}

// Writes sums of one phase, or of two neighbours along w, as elements of type E: 8 columns at a time.
template <class E, int n, int joint, int blocks>
class Writer {
 public:
  __device__ Writer(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : step_(p.results.channel),
        neighbour_(p.results.neighbour),
        channels_(uniform(p.out_channels - memory.item()->band * n)),
        paired_(joint == 2 && p.paired) {
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      const int missing = Missing(p, memory, b, blocks).of + phase, next = missing + phase_bits(0, 0, 1);
      to_[2 * b] = static_cast<E*>(p.to.data) + (memory.place()[b] + memory.item()->result + distance);
      to_[2 * b + 1] = ahead(to_[2 * b], p.results.group, 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int outside = Missing::outside;
        there_[2 * b + half] = (missing & outside << half * Missing::row_bits) == 0;
        next_[2 * b + half] = (next & outside << half * Missing::row_bits) == 0;
      }
    }
  }

  __device__ int channels() const { return channels_; }
  // f(put), where put(i, x) stores x, of the columns 8*i and on, by phase, block, row and column. f is there twice:
  // mostly columns come in whole groups of 8, and joint phases are stored as one, and such stores are short.
  template <class F>
  __device__ void with_put(F&& f) const {
    if (joint == 2 ? paired_ : channels_ % 8 == 0)
      f([&](int i, const float(&x)[joint][blocks][4]) { put_whole(i, x); });
    else
      f([&](int i, const float(&x)[joint][blocks][4]) { put_each(i, x); });
  }

 private:
  __device__ void put_whole(int i, const float (&x)[joint][blocks][4]) const {
    write(i, false, [&](E* to, int r, int k) {
      if constexpr (joint == 2)
        store_result(reinterpret_cast<Pair<E>*>(to),
                     pair_of<E>(x[0][r / 2][r % 2 * 2 + k], x[1][r / 2][r % 2 * 2 + k]));
      else
        store_result(to, element<E>(x[0][r / 2][r % 2 * 2 + k]));
    });
  }
  __device__ void put_each(int i, const float (&x)[joint][blocks][4]) const {
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
    if (ragged) {  // or what each group of columns takes of them is kept from phase to phase
      forget(channels);
      forget(thread);
    }
    const int own = channels - Sums<n>::column(0, thread);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int r = 0; r < 2 * blocks; ++r) {
        E* const to = ahead(to_[r], step_, 8 * i + k);
        if (there_[r] && (!ragged || 8 * i + k < own)) put_one(to, r, k);
      }
  }

  E* to_[2 * blocks];
  bool there_[2 * blocks], next_[2 * blocks];  // the outputs of this phase and of the next one along w
  std::uint32_t step_, neighbour_;             // in elements: of columns, and of phases along w
  int channels_;
  bool paired_;
};

}  // namespace convt::core::cuda::sm90
