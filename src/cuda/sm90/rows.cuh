// SPDX-License-Identifier: Apache-2.0
// Results whose rows do not begin and end with sectors of memory, of two phases along w.
//
// A sector of 32 bytes that is written in parts costs as much as several that are written at once, and consumers' own
// stores, of 8 neighbouring positions, would leave two such sectors every 16 outputs. Here all consumers of a block put
// 8 columns of their positions together in shared memory, [column][line of the tile][output], and then store along
// lines: every thread has one of the outputs of two phases, in all columns. Outputs along w are neighbours in memory,
// and of the type of inputs: the host takes another way else. Stores are plain: parts of sectors that leave the L2
// cache first were no faster.
#pragma once

#include "cuda/sm90/staged.cuh"

namespace convt::core::cuda::sm90 {

// What a thread knows of every tile, in its place in shared memory.
struct RowPlace {
  std::int64_t to;  // of the output that it stores, from the tile's first on, in elements
  int at;           // the same along each axis, in outputs, of the first phases of d and h: 10 bits each
  int staged;       // where its two rows are in a staged column, of the first phase along w: 16 bits each
};
static_assert(sizeof(RowPlace) == 2 * sizeof(std::int64_t));
static_assert(row_outputs < 1024 && most_blocks * 8 * most_stride < 1024);

template <int n>
__device__ void find_row_places(const ConvParams& p, const Memory& memory) {
  const int thread = memory.consumer(), block = thread / group_threads;
  RowPlace place{};
  const int length = 2 * p.axis[2].tile, line = thread / length, d = line / p.axis[1].tile;
  const int at[3] = {d * p.axis[0].stride, (line - d * p.axis[1].tile) * p.axis[1].stride, thread - line * length};
  place.to = at[0] * p.to.step.d + at[1] * p.to.step.h + at[2];
  place.at = at[0] | at[1] << 10 | at[2] << 20;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int position = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a)
      position = position * p.axis[a].tile + position_at(p, block, Sums<n>::row(half, thread), a);
    place.staged |= 2 * position << 16 * half;
  }
  *reinterpret_cast<RowPlace*>(memory.place()) = place;
}

// Writes sums of two phases as elements of type E. All consumers of a block, so many threads, take part in every call.
template <class E, int n, int consumers>
class RowWriter {
 public:
  __device__ RowWriter(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : memory_(memory),
        step_(p.results.channel),
        channels_(uniform(p.out_channels - memory.item()->band * n)),
        there_(is_there(p, memory, phase)) {
    to_ = static_cast<E*>(p.to.data) + (place_of(memory).to + memory.item()->result + distance);
    meet();  // all have read what was staged before: an odd number of turns ends with the buffer that this begins with
  }

  // As Writer has them.
  __device__ int channels() const { return channels_; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[2][1][4]) {
      E* const staged = staged_in<E, n>(memory_.behind) + i % 2 * (row_columns * pitch);
      stage(x, staged);
      meet();
      store(i, staged + memory_.consumer());
    });
  }

 private:
  static constexpr int pitch = row_pitch(sizeof(E));
  static_assert(consumers == row_outputs);

  __device__ static const RowPlace& place_of(const Memory& memory) {
    return *reinterpret_cast<const RowPlace*>(memory.place());
  }
  __device__ static void meet() { sync_some<2, consumers>(); }
  __device__ static bool is_there(const ConvParams& p, const Memory& memory, int phase) {
    if (p.missing != 0) return true;
    const int at = place_of(memory).at;
    bool there = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const ConvAxis& axis = p.axis[a];
      const int first = memory.item()->tile[a] * axis.tile * axis.stride + (a < 2 ? phase_along(phase, a) : 0);
      there &= first + (at >> 10 * a & 1023) < axis.size;
    }
    return there;
  }
  __device__ void stage(const float (&x)[2][1][4], E* staged) const {
    const int place = place_of(memory_).staged;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      E* const own = staged + memory_.consumer() % 4 * 2 * pitch + (place >> 16 * half & 0xffff);
#pragma unroll
      for (int k = 0; k < 2; ++k)
        *reinterpret_cast<Pair<E>*>(own + k * pitch) = pair_of<E>(x[0][0][2 * half + k], x[1][0][2 * half + k]);
    }
  }
  __device__ void store(int i, const E* staged) const {
    const int left = channels_ - row_columns * i;
    E x[row_columns];
#pragma unroll
    for (int k = 0; k < row_columns; ++k) x[k] = staged[k * pitch];
#pragma unroll
    for (int k = 0; k < row_columns; ++k)
      if (there_ && k < left) *ahead(to_, step_, row_columns * i + k) = x[k];
  }

  const Memory& memory_;
  E* to_;
  std::uint32_t step_;  // of columns, in elements
  int channels_;
  bool there_;
};

// As Results has it.
template <int n, int consumers>
struct RowResults {
  static constexpr bool own_type = true;
  const ConvParams& p;
  const Memory& memory;
  const int& phase;
  const std::int64_t& distance;

  template <class To>
  __device__ RowWriter<To, n, consumers> operator()() const {
    return {p, memory, phase, distance};
  }
};

}  // namespace convt::core::cuda::sm90
