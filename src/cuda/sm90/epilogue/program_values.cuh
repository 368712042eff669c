// SPDX-License-Identifier: Apache-2.0
// Describes the accumulators that a register program runs on: their channels, and the elements of whole-tensor operands
// that belong to them. Such tensors have the layout of the results, so that offsets are the same.
#pragma once

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/epilogue/program_steps.cuh"
#include "cuda/sm90/store/quads.cuh"

namespace convt::core::cuda::sm90 {

// Elements of a whole tensor as they are loaded: two neighbours, or one. All loads are issued before one is used.
template <class T, bool pairs>
struct alignas(sizeof(T) * (pairs ? 2 : 1)) LoadedElements {
  T of[pairs ? 2 : 1];
};
// Zeros unless they may be loaded.
template <class Loaded, class T>
__device__ Loaded load_elements(const T* from, bool there) {
  Loaded loaded{};
  if (there) loaded = *reinterpret_cast<const Loaded*>(from);
  return loaded;
}
// Accumulators in groups of 8 columns. A thread has four of each group; k % 2 says which of its two channels value k
// belongs to.
template <int n>
struct ColumnValues {
  static constexpr bool mixes = true;  // four threads have all channels of a row
  const ConvParams& p;
  const Memory& memory;

  __device__ static constexpr int channel_of(int k) { return k % 2; }
  __device__ TwoChannels in_row(int row, int group) const {
    const float4 both = scale_bias_in<n>(memory.epilogue).at(row, group);
    return {{{both.x, both.y}, {both.z, both.w}}};
  }
  __device__ int column(int group) const {
    int thread = threadIdx.x;
    opaque(thread);  // recomputed, to save registers
    return Fragment<n>::column(group, thread);
  }
  __device__ int channel(int group, int which) const { return memory.work()->band * n + column(group) + which; }
  __device__ bool is_channel(int group, int which) const { return column(group) + which < p.out_channels; }
  // Whether a group has channels.
  __device__ bool has_group(int group) const {
    return 8 * group < (p.bands == 1 ? p.out_channels : p.out_channels - uniform(memory.work()->band) * n);
  }
};

// The values of one phase, or of two neighbours along w: the row tiles of the first phase, then those of the second.
// distance: from the first phase's outputs to this one's.
template <class Traits>
struct PhaseValues : ColumnValues<Traits::columns> {
  static constexpr int n = Traits::columns;
  using ColumnValues<n>::p;
  using ColumnValues<n>::memory;
  static constexpr int joint = Traits::joint, m_tiles = Traits::m_tiles;
  static constexpr bool duplicated = Traits::duplicated;
  static constexpr bool has_room = sm90::has_room(Traits::config, n);
  const int& phase;
  const std::int64_t& distance;

  __device__ PhaseValues(const ConvParams& params, const Memory& own, const Phase& c)
      : ColumnValues<n>{params, own}, phase(c.bits), distance(c.result) {}

  // Loads the elements of a step's tensor. T: their type.
  template <class T, int groups>
  __device__ void load_others(const RegisterProgram::Step& step, int first,
                              float (&other)[joint * m_tiles][4 * groups]) const {
    if (joint == 2 && p.paired && step.aligned >= 2)
      load_all<T, joint == 2, groups>(step, first, other);
    else
      load_all<T, false, groups>(step, first, other);
  }

  // Brings elements of a step's tensor to the L2 cache. bytes: of an element.
  __device__ void prefetch_others(const RegisterProgram::Step& step, int bytes) const {
    int thread = threadIdx.x;
    opaque(thread);
    const int left = step.channels - memory.work()->band * n - Fragment<n>::column(0, thread);
    const std::int64_t column_bytes = static_cast<std::int64_t>(p.results.channel) * bytes;
#pragma unroll
    for (int b = 0; b < m_tiles; ++b) {
      const int missing = missing_of(b);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if ((missing & Missing::outside << half * Missing::row_bits) != 0) continue;
        const std::int64_t row = half * (duplicated ? p.results.position : std::int64_t{p.results.group});
        const auto* from = static_cast<const unsigned char*>(step.data[0]) +
                           (offset_of(b) + memory.work()->result + distance + row) * bytes;
#pragma unroll 1
        for (int column = 0; column < n && column < left; column += 8) {
          prefetch(from);
          if (column + 1 < left) prefetch(from + column_bytes);
          from += 8 * column_bytes;
        }
      }
    }
  }

 private:
  template <class T, bool pairs, int groups>
  __device__ void load_all(const RegisterProgram::Step& step, int group,
                           float (&other)[joint * m_tiles][4 * groups]) const {
    constexpr int phases = pairs ? 1 : joint;
    using Loaded = LoadedElements<T, pairs>;
    int thread = threadIdx.x;
    opaque(thread);
    const int left = step.channels - memory.work()->band * n - Fragment<n>::column(group, thread);
    const auto next_channel = static_cast<std::uint32_t>(p.results.channel);
    Loaded loaded[m_tiles][2][2 * groups][phases];
#pragma unroll
    for (int b = 0; b < m_tiles; ++b) {
      const T* from = static_cast<const T*>(step.data[0]) + (offset_of(b) + memory.work()->result + distance);
      from += static_cast<std::int64_t>(8 * group) * next_channel;
      const int missing = missing_of(b), next = missing + phase_bits(0, 0, 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int outside = Missing::outside;
        const bool valid = (missing & outside << half * Missing::row_bits) == 0;
        const bool both = (next & outside << half * Missing::row_bits) == 0;
#pragma unroll
        for (int k = 0; k < 2 * groups; ++k) {
          const int column = k / 2 * 8 + k % 2;
          const T* const own = from + static_cast<std::uint64_t>(next_channel) * static_cast<std::uint32_t>(column);
#pragma unroll
          for (int j = 0; j < phases; ++j)
            loaded[b][half][k][j] =
                load_elements<Loaded>(own + j * p.results.neighbour, valid && column < left && (j == 0 || both));
        }
        from += duplicated ? p.results.position : p.results.group;
      }
    }
#pragma unroll
    for (int b = 0; b < m_tiles; ++b)
#pragma unroll
      for (int at = 0; at < 4 * groups; ++at) {
        const Loaded(&own)[phases] = loaded[b][at / 2 % 2][at / 4 * 2 + at % 2];
        other[b][at] = to_real(own[0].of[0]);
        if constexpr (joint == 2)
          other[m_tiles + b][at] = to_real(pairs ? own[0].of[pairs ? 1 : 0] : own[phases - 1].of[0]);
      }
  }
  // From a tile's first output to the thread's first one of row tile b, in elements.
  __device__ std::int64_t offset_of(int b) const {
    if constexpr (Traits::StorePolicy::has_m_tile_offsets) return memory.output_offset()[b];
    const int thread = memory.consumer(), row = Fragment<n>::row(0, thread);
    return p.results.m_tile[thread / group_threads * m_tiles + b] +
           static_cast<std::int64_t>(row / 8) * p.results.group + row % 8 * p.results.position +
           static_cast<std::int64_t>(Fragment<n>::column(0, thread)) * p.results.channel;
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

// The values of a sliding plane (kernel/sliding.cuh).
template <int n>
struct PlaneValues : ColumnValues<n> {
  using ColumnValues<n>::p;
  using ColumnValues<n>::memory;
  static constexpr int m_tiles = configs::sliding.m_tiles(n);
  static constexpr bool has_room = sm90::has_room(configs::sliding, n);
  int plane;

  __device__ PlaneValues(const ConvParams& params, const Memory& own, int at)
      : ColumnValues<n>{params, own}, plane(at) {}

  template <class T, int groups>
  __device__ void load_others(const RegisterProgram::Step& step, int group, float (&other)[m_tiles][4 * groups]) const {
    using Loaded = LoadedElements<T, false>;
    const WorkTile& work = *memory.work();
    const int thread = memory.consumer(), first_column = Fragment<n>::column(group, thread);
    const std::int64_t first = work.image * p.to.step.n + plane * p.to.step.d + first_column * p.to.step.c;
    Loaded loaded[m_tiles][2][2 * groups];
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
        const T* const from = static_cast<const T*>(step.data[0]) + (first + h * p.to.step.h + w * p.to.step.w);
#pragma unroll
        for (int k = 0; k < 2 * groups; ++k) {
          const int column = k / 2 * 8 + k % 2;
          loaded[b][half][k] =
              load_elements<Loaded>(from + column * p.to.step.c, valid && first_column + column < step.channels);
        }
      }
#pragma unroll
    for (int b = 0; b < m_tiles; ++b)
#pragma unroll
      for (int at = 0; at < 4 * groups; ++at) other[b][at] = to_real(loaded[b][at / 2 % 2][at / 4 * 2 + at % 2].of[0]);
  }
};

// The values with swapped operands, in groups of 8 positions: [group][channel][position].
struct SwappedValues {
  static constexpr bool has_room = false, mixes = false;
  const ConvParams& p;
  const Memory& memory;

  __device__ static constexpr int channel_of(int k) { return k / 2 % 2; }
  __device__ TwoChannels in_row(int row, int) const {
    const float2* const own =
        scale_bias_in<swapped_channels>(memory.epilogue).data + row * swapped_channels + SwappedFragment::channel(0);
    return {{own[0], own[SwappedFragment::channel(1) - SwappedFragment::channel(0)]}};
  }
  __device__ int channel(int, int which) const {
    return memory.work()->band * swapped_channels + SwappedFragment::channel(which);
  }
  __device__ static bool has_group(int) { return true; }

  template <class T, int groups>
  __device__ void load_others(const RegisterProgram::Step& step, int first_group, float (&other)[1][4 * groups]) const {
    using Loaded = LoadedElements<T, false>;
    const WorkTile& work = *memory.work();
    const int m_tile = threadIdx.x / group_threads, own_channel = channel(0, 0);
    Loaded loaded[2 * groups][2];
#pragma unroll
    for (int i = 0; i < 2 * groups; ++i) {
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
        loaded[i][which] = load_elements<Loaded>(static_cast<const T*>(step.data[0]) + (at + 8 * which * p.to.step.c),
                                                 valid && own_channel + 8 * which < step.channels);
    }
#pragma unroll
    for (int k = 0; k < 4 * groups; ++k) other[0][k] = to_real(loaded[k / 4 * 2 + k % 2][k / 2 % 2].of[0]);
  }
};

}  // namespace convt::core::cuda::sm90
