// SPDX-License-Identifier: Apache-2.0
// Split operands: products of floats, made of products of tf32 or f16.
//
// A float is the sum of two parts, high and low. x * w becomes three products: high * high, high * low and low * high;
// low * low is below float32's last digit. Matrix instructions truncate their sums. So they sum only a few products at
// a time, the small ones first. Ordinary additions, which round, add these "few sums" to the sums. While one set of few
// sums is added, the tensor cores work on the other.
#pragma once

#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/mainloop/taps.cuh"
#include "cuda/sm90/operand.cuh"
#include "cuda/sm90/pipeline/pipeline.cuh"

namespace convt::core::cuda::sm90 {

// Leaves sums undefined, as they are overwritten or not used.
template <int m_tiles, int count>
__device__ void leave_undefined(float (&sums)[m_tiles][count]) {
#pragma unroll
  for (auto& m_tile : sums)
#pragma unroll
    for (float& x : m_tile) leave_undefined(x);
}

// Sums before the first product, which overwrites them. Products of split operands are added, so their sums begin at 0.
template <bool split, int m_tiles, int count>
__device__ void begin_sums(float (&sums)[m_tiles][count]) {
  if constexpr (split) {
#pragma unroll
    for (auto& m_tile : sums)
#pragma unroll
      for (float& x : m_tile) x = 0;
  } else {
    leave_undefined(sums);
  }
}

// Adds few sums, which matrix instructions have completed, to the sums. Parts of f16 are scaled; this undoes the
// scales.
template <class Input, int count>
__device__ void add_few(float (&few)[count], float (&sums)[count]) {
  float undo = 1;
  if constexpr (std::is_same_v<Input, SplitF16>) undo = split_scales().undo;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    opaque(few[k]);  // not read before the wait
    sums[k] = std::is_same_v<Input, SplitF16> ? fmaf(few[k], undo, sums[k]) : sums[k] + few[k];
  }
}

// The products of `count` taps, in groups of one or two taps and one row tile. They are complete on return: in a loop
// the compiler could not tell which few sums are in flight. Two sets of few sums take turns, if registers suffice.
template <class Traits, int steps, int count, class Taps, int m_tiles = Traits::m_tiles>
__device__ void multiply_split_taps(const ConvParams& p, const Operand& inputs, const Operand& weights,
                                    const int (&offset)[m_tiles], Taps& taps, int& tile,
                                    float (&sums)[m_tiles][Traits::across / 2]) {
  // At most two steps of high parts: each truncates what the steps before it summed.
  constexpr int step_units = step_bytes / 16, at_once = count < 2 || steps == 2 ? 1 : 2,
                groups = count / at_once * m_tiles;
  constexpr int sets = split_sets(Traits::config, Traits::columns);
  const int low = p.row_bytes / 32;  // from a high part to its low part, in units of 16 bytes
  int tap_offset[count];
  taps.take(tap_offset);
  float few[sets][Traits::across / 2];
  leave_undefined(few);
#pragma unroll
  for (int group = 0; group < groups + sets; ++group) {
    const int set = group % sets;
    if (group >= sets) {
      if (sets == 2 && group <= groups)
        multiply_wait<1>();
      else
        multiply_wait<0>();
      if (group - sets < groups) add_few<typename Traits::Input>(few[set], sums[(group - sets) % m_tiles]);
    }
    if (group >= groups) continue;
    const int first = group / m_tiles * at_once, m_tile = group % m_tiles;
    const auto multiply_parts = [&](int tap, int k, int input_part, int weight_part, int adds) {
      multiply<Traits::format, Traits::across>(
          few[set], inputs.at(tap_offset[tap] + offset[m_tile] + k * step_units + input_part),
          weights.at(tile + tap * p.tile_units + k * step_units + weight_part), adds);
    };
    multiply_begin();
#pragma unroll
    for (int tap = first; tap < first + at_once; ++tap)
#pragma unroll
      for (int k = 0; k < steps; ++k) {
        multiply_parts(tap, k, low, 0, tap == first && k == 0 ? 0 : 1);
        multiply_parts(tap, k, 0, low, 1);
      }
#pragma unroll
    for (int tap = first; tap < first + at_once; ++tap)
#pragma unroll
      for (int k = 0; k < steps; ++k) multiply_parts(tap, k, 0, 0, 1);
    multiply_commit();
  }
  tile += count * p.tile_units;
}

}  // namespace convt::core::cuda::sm90
