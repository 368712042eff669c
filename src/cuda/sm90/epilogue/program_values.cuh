// SPDX-License-Identifier: Apache-2.0
// Describes the accumulators that a register program has at hand: their channels, and the elements of whole-tensor
// operands that belong to them. Such tensors have the layout of the results, so that offsets are the same.
#pragma once

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/epilogue/program_steps.cuh"
#include "cuda/sm90/store/quads.cuh"

namespace convt::core::cuda::sm90 {

template <class T>
__device__ float load_value(const unsigned char* from) {
  return to_real(*reinterpret_cast<const T*>(from));
}
// Two neighbours.
template <class T>
__device__ float2 load_two(const unsigned char* from) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return *reinterpret_cast<const float2*>(from);
  } else {
    const ushort2 bits = *reinterpret_cast<const ushort2*>(from);
    return {to_real(T{bits.x}), to_real(T{bits.y})};
  }
}

// Accumulators of 8 columns: value k belongs to the first of two channels if k is even.
template <int n>
struct ColumnValues {
  static constexpr bool has_aside = true;  // whether there are registers for `aside`
  static constexpr bool mixes = true;      // four threads have all channels of a row
  const ConvParams& p;
  const Memory& memory;
  int group;  // of 8 columns

  __device__ static constexpr int channel_of(int k) { return k % 2; }
  __device__ TwoChannels in_row(int row) const {
    const float4 both = scale_bias_in<n>(memory.epilogue).at(row, group);
    return {{{both.x, both.y}, {both.z, both.w}}};
  }
  __device__ int column() const {
    int thread = threadIdx.x;
    opaque(thread);  // recomputed, to save registers
    return Fragment<n>::column(group, thread);
  }
  __device__ int channel(int which) const { return memory.work()->band * n + column() + which; }
  __device__ bool is_channel(int which) const { return column() + which < p.out_channels; }
};

// Of one phase, or of two neighbours along w, for some row tiles from the first on. distance: from the first phase's
// outputs to this one's.
template <class Traits>
struct PhaseValues : ColumnValues<Traits::columns> {
  static constexpr int n = Traits::columns;
  using ColumnValues<n>::p;
  using ColumnValues<n>::memory;
  using ColumnValues<n>::group;
  static constexpr int joint = Traits::joint, m_tiles = Traits::m_tiles, at_hand = m_tiles_at_hand(n, joint, m_tiles);
  static constexpr bool duplicated = Traits::duplicated;
  static constexpr bool has_aside = has_room(Traits::config, n), mixes = has_aside;
  const int& phase;
  const std::int64_t& distance;
  int first_m_tile;

  __device__ PhaseValues(const ConvParams& params, const Memory& own, int columns, const Phase& c, int first)
      : ColumnValues<n>{params, own, columns}, phase(c.bits), distance(c.result), first_m_tile(first) {}

  template <class E, int count>
  __device__ void load_others(const RegisterProgram::Step& step, float (&other)[count]) const {
    static_assert(count == joint * at_hand * 4);
    if constexpr (!has_tensor_room(Traits::config, n)) return;
    if (sizeof(E) == sizeof(float) || step.dtype == CONVT_F32)
      load_all<float>(step, other);
    else
      load_all<E>(step, other);
  }

 private:
  template <class T, int count>
  __device__ void load_all(const RegisterProgram::Step& step, float (&other)[count]) const {
    constexpr int apart = duplicated ? 2 : 1;  // neighbouring threads' positions
    const int thread = memory.consumer(), row = Fragment<n>::row(0, thread),
              column = Fragment<n>::column(group, thread);
    const int left = step.channels - memory.work()->band * n - column;
#pragma unroll
    for (int b = 0; b < at_hand; ++b) {
      const int m_tile = thread / group_threads * m_tiles + first_m_tile + b;
      std::int64_t first = memory.work()->result + distance + p.results.m_tile[m_tile];
      first += static_cast<std::int64_t>(row / 8 / apart) * p.results.group + row % 8 * apart * p.results.position +
               static_cast<std::int64_t>(column) * p.results.channel;
      const auto* from = static_cast<const unsigned char*>(step.data[0]) + first * static_cast<int>(sizeof(T));
      const int missing = missing_of(first_m_tile + b), next = missing + phase_bits(0, 0, 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int outside = Missing::outside;
        const bool valid = (missing & outside << half * Missing::row_bits) == 0;
        const bool both = (next & outside << half * Missing::row_bits) == 0;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          const int k = b * 4 + half * 2 + which;
          const bool own = valid && which < left;
          const unsigned char* const at = from + which * std::int64_t{p.results.channel} * static_cast<int>(sizeof(T));
          float2 pair{0, 0};
          if (joint == 2 && p.paired && step.pairs) {
            if (own) pair = load_two<T>(at);
          } else {
            if (own) pair.x = load_value<T>(at);
            if (joint == 2 && own && both)
              pair.y = load_value<T>(at + std::int64_t{p.results.neighbour} * static_cast<int>(sizeof(T)));
          }
          other[k] = pair.x;
          if constexpr (joint == 2) other[at_hand * 4 + k] = pair.y;
        }
        from += (duplicated ? p.results.position : std::int64_t{p.results.group}) * static_cast<int>(sizeof(T));
      }
    }
  }
  // Missing of row tile b. With a duplicated halo, all outputs of a thread are valid, or none.
  __device__ int missing_of(int b) const {
    if constexpr (duplicated) {
      return is_quad_valid<n>(p, memory, phase) ? 0 : ~0;
    } else {
      return Missing(p, memory, b, m_tiles).of + phase;
    }
  }
};

// Of a sliding plane (kernel/sliding.cuh).
template <int n>
struct PlaneValues : ColumnValues<n> {
  using ColumnValues<n>::p;
  using ColumnValues<n>::memory;
  using ColumnValues<n>::group;
  static constexpr int m_tiles = configs::sliding.m_tiles(n);
  static constexpr bool has_aside = has_room(configs::sliding, n), mixes = has_aside;
  int plane;

  __device__ PlaneValues(const ConvParams& params, const Memory& own, int columns, int at)
      : ColumnValues<n>{params, own, columns}, plane(at) {}

  template <class E, int count>
  __device__ void load_others(const RegisterProgram::Step& step, float (&other)[count]) const {
    static_assert(count == m_tiles * 4);
    if constexpr (!has_tensor_room(configs::sliding, n)) return;
    if (sizeof(E) == sizeof(float) || step.dtype == CONVT_F32)
      load_all<float>(step, other);
    else
      load_all<E>(step, other);
  }

 private:
  template <class T, int count>
  __device__ void load_all(const RegisterProgram::Step& step, float (&other)[count]) const {
    const WorkTile& work = *memory.work();
    const int thread = memory.consumer(), column = Fragment<n>::column(group, thread);
    const std::int64_t first = work.image * p.to.step.n + plane * p.to.step.d + column * p.to.step.c;
#pragma unroll
    for (int b = 0; b < m_tiles; ++b)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m_tile = thread / group_threads * m_tiles + b, row = Fragment<n>::row(half, thread);
        const RunRow run(p, m_tile * m_tile_rows + row);
        const int own_h = p.run != 0 ? run.h : position_at(p, m_tile, row, 1);
        const int own_w = p.run != 0 ? run.w : position_at(p, m_tile, row, 2);
        const int h = work.tile[1] * p.axis[1].tile + own_h, w = work.tile[2] * p.axis[2].tile + own_w;
        const bool valid = own_h < p.axis[1].tile && own_w < p.axis[2].tile && h < p.axis[1].size && w < p.axis[2].size;
        const std::int64_t at = first + h * p.to.step.h + w * p.to.step.w;
#pragma unroll
        for (int which = 0; which < 2; ++which)
          other[b * 4 + half * 2 + which] = valid && column + which < step.channels
                                                ? to_real(static_cast<const T*>(step.data[0])[at + which * p.to.step.c])
                                                : 0.0f;
      }
  }
};

// With swapped operands, for a few groups of 8 positions from the first on: [group][channel][position].
struct SwappedValues {
  static constexpr bool has_aside = true, mixes = false;
  const ConvParams& p;
  const Memory& memory;
  int first_group;

  __device__ static constexpr int channel_of(int k) { return k / 2 % 2; }
  __device__ TwoChannels in_row(int row) const {
    const float2* const own =
        scale_bias_in<swapped_channels>(memory.epilogue).data + row * swapped_channels + SwappedFragment::channel(0);
    return {{own[0], own[SwappedFragment::channel(1) - SwappedFragment::channel(0)]}};
  }
  __device__ int channel(int which) const {
    return memory.work()->band * swapped_channels + SwappedFragment::channel(which);
  }

  template <class E, int count>
  __device__ void load_others(const RegisterProgram::Step& step, float (&other)[count]) const {
    if (sizeof(E) == sizeof(float) || step.dtype == CONVT_F32)
      load_all<float>(step, other);
    else
      load_all<E>(step, other);
  }

 private:
  template <class T, int count>
  __device__ void load_all(const RegisterProgram::Step& step, float (&other)[count]) const {
    const WorkTile& work = *memory.work();
    const int m_tile = threadIdx.x / group_threads, own_channel = channel(0);
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const int position = (first_group + i / 2) * 8 + SwappedFragment::position() + i % 2;
      const RunRow run(p, m_tile * swapped_positions + position);
      std::int64_t at = work.image * p.to.step.n + own_channel * p.to.step.c;
      bool valid = true;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const int own = p.run == 0 ? position_at(p, m_tile, position, a) : a == 0 ? 0 : a == 1 ? run.h : run.w;
        const int out = work.tile[a] * p.axis[a].tile + own;
        valid &= own < p.axis[a].tile && out < p.axis[a].size;
        at += out * (a == 0 ? p.to.step.d : a == 1 ? p.to.step.h : p.to.step.w);
      }
#pragma unroll
      for (int which = 0; which < 2; ++which)
        other[i / 2 * 4 + which * 2 + i % 2] =
            valid && own_channel + 8 * which < step.channels
                ? to_real(static_cast<const T*>(step.data[0])[at + 8 * which * p.to.step.c])
                : 0.0f;
    }
  }
};

}  // namespace convt::core::cuda::sm90
