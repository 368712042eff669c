// SPDX-License-Identifier: Apache-2.0
// The store of rows, for two phases along w whose output rows do not consist of whole sectors of 32 bytes.
//
// A sector that is written in parts costs as much as several whole ones. Direct stores of 8 neighbouring positions
// would leave two partial sectors every 16 outputs. So all consumers of a block put 8 columns of their positions
// together in shared memory: [column][line of the tile][output]. Then they store along lines: every thread has one
// output of the two phases, in all columns. Outputs along w must be neighbours in memory and have the input's dtype;
// otherwise the host chooses another tile. Stores are plain: an evict-first policy was no faster for partial sectors.
#pragma once

#include "cuda/sm90/store/policy.cuh"
#include "cuda/sm90/store/staging.cuh"
#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// A thread's offsets. They hold for every tile and are in shared memory.
struct RowOffset {
  std::int64_t to;  // from the tile's first output to the one that it stores, in elements
  int at;           // that distance along each axis, in outputs, for the first phases of d and h: 10 bits each
  int staged;       // offsets of its two rows in a staged column, for the first phase along w: 16 bits each
};
static_assert(sizeof(RowOffset) == 2 * sizeof(std::int64_t));
static_assert(row_outputs < 1024 && most_m_tiles * 8 * most_axis_phases < 1024);

template <int n>
__device__ void find_row_offsets(const ConvParams& p, const Memory& memory) {
  const int thread = memory.consumer(), m_tile = thread / group_threads;
  RowOffset offset{};
  const int length = 2 * p.axis[2].tile, line = thread / length, d = line / p.axis[1].tile;
  const int at[3] = {d * p.axis[0].stride, (line - d * p.axis[1].tile) * p.axis[1].stride, thread - line * length};
  offset.to = at[0] * p.to.step.d + at[1] * p.to.step.h + at[2];
  offset.at = at[0] | at[1] << 10 | at[2] << 20;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int position = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a)
      position = position * p.axis[a].tile + position_at(p, m_tile, Fragment<n>::row(half, thread), a);
    offset.staged |= 2 * position << 16 * half;
  }
  *reinterpret_cast<RowOffset*>(memory.output_offset()) = offset;
}

// Writes sums of two phases as elements of type E. All consumers of a block take part in every call.
template <class E, int n, int consumers>
class RowWriter {
 public:
  __device__ RowWriter(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : memory_(memory),
        step_(p.results.channel),
        channels_(uniform(p.out_channels - memory.work()->band * n)),
        valid_(is_valid(p, memory, phase)) {
    to_ = static_cast<E*>(p.to.data) + (row_offset(memory).to + memory.work()->result + distance);
    meet();  // after an odd number of rounds, the previous writer's last round may still read the first buffer
  }

  // See Writer.
  __device__ int channels() const { return channels_; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[2][1][4]) {
      E* const staged = staged_in<E, n>(memory_.epilogue) + i % 2 * (row_columns * pitch);
      stage(x, staged);
      meet();
      store(i, staged + memory_.consumer());
    });
  }

 private:
  static constexpr int pitch = row_pitch(sizeof(E));
  static_assert(consumers == row_outputs);

  __device__ static const RowOffset& row_offset(const Memory& memory) {
    return *reinterpret_cast<const RowOffset*>(memory.output_offset());
  }
  __device__ static void meet() { sync_some<2, consumers>(); }
  __device__ static bool is_valid(const ConvParams& p, const Memory& memory, int phase) {
    if (p.missing != 0) return true;
    const int at = row_offset(memory).at;
    bool valid = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const ConvAxis& axis = p.axis[a];
      const int first = memory.work()->tile[a] * axis.tile * axis.stride + (a < 2 ? phase_along(phase, a) : 0);
      valid &= first + (at >> 10 * a & 1023) < axis.size;
    }
    return valid;
  }
  __device__ void stage(const float (&x)[2][1][4], E* staged) const {
    const int offset = row_offset(memory_).staged;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      E* const own = staged + memory_.consumer() % 4 * 2 * pitch + (offset >> 16 * half & 0xffff);
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
      if (valid_ && k < left) *ahead(to_, step_, row_columns * i + k) = x[k];
  }

  const Memory& memory_;
  E* to_;
  std::uint32_t step_;  // of columns, in elements
  int channels_;
  bool valid_;
};

// See Results.
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

struct RowStore {
  static constexpr bool has_spare_register = false, has_m_tile_offsets = false;
  template <class Traits>
  using Results = RowResults<Traits::columns, Traits::roles.first_producer()>;

  template <class Traits>
  __device__ static __forceinline__ void find_offsets(const ConvParams& p, const Memory& memory) {
    find_row_offsets<Traits::columns>(p, memory);
  }
};
template <>
struct StoreOf<Store::rows> {
  using Policy = RowStore;
};

}  // namespace convt::core::cuda::sm90
