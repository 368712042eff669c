// SPDX-License-Identifier: Apache-2.0
// A warpgroup's matrix products: the taps of one phase, from a halo tile and weights that are resident or streamed.
#pragma once

#include "cuda/sm90/mainloop/split.cuh"
#include "cuda/sm90/pipeline/pipeline.cuh"

namespace convt::core::cuda::sm90 {

// Issues the products of `count` taps as one group. All loops are unrolled: the end of a loop would close the group.
// tap_walk.take(): the taps' offsets; offset: of each row tile, in units of 16 bytes; add: 0 if the first product
// overwrites the sums.
template <class Traits, int steps, int count, class Taps, int m_tiles = Traits::m_tiles>
__device__ void multiply_taps(const ConvParams& p, const Operand& inputs, const Operand& weights,
                              const int (&offset)[m_tiles], Taps& tap_walk, int& tile, int add,
                              float (&sums)[m_tiles][Traits::across / 2]) {
  constexpr int step_units = step_bytes / 16;
  int tap_offset[count];
  tap_walk.take(tap_offset);
  multiply_begin();
#pragma unroll
  for (int tap = 0; tap < count; ++tap) {
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int i = 0; i < m_tiles; ++i) {
        const std::uint64_t positions = inputs.at(tap_offset[tap] + offset[i] + k * step_units);
        const std::uint64_t channels = weights.at(tile + k * step_units);
        multiply<Traits::format, Traits::across>(sums[i], Traits::swapped ? channels : positions,
                                                 Traits::swapped ? positions : channels, tap == 0 && k == 0 ? add : 1);
      }
    tile += p.tile_units;
  }
  multiply_commit();
}

// The products of one chunk of channels, from its halo stage; they are in flight on return. Taps are processed in runs
// that one stage of weights covers; waits and releases come at the end of a run.
template <class Traits, int steps, int m_tiles = Traits::m_tiles>
__device__ void multiply_chunk(const ConvParams& p, const Shared& shared, const Phase& c, const int (&offset)[m_tiles],
                               int halo_stage, ConsumerStates& states, HeldStages& held,
                               float (&sums)[m_tiles][Traits::across / 2]) {
  const Operand inputs{shared.halo + halo_stage * p.halo_stage_units, p.input_layout};
  const Operand weights{shared.weights, p.weight_layout};
  Walk walk(p, c, inputs.start + c.offset);
  for (int left = c.taps; left > 0;) {
    if (held.tiles_left == 0) {
      held.finished_weights = held.weights;
      held.weights = states.weights.index;
      consumer_wait_weights(p, shared, states, held);
      held.tiles_left = p.weight_stage_tiles;
    }
    int run = min(left, held.tiles_left);
    left -= run;
    held.tiles_left -= run;
    const auto multiply_some = [&]<int count>() {
      if constexpr (Traits::split)
        multiply_split_taps<Traits, steps, count>(p, inputs, weights, offset, walk, held.weight_tile, sums);
      else
        multiply_taps<Traits, steps, count>(p, inputs, weights, offset, walk, held.weight_tile, held.add, sums);
      held.add = 1;
    };
    // multiply_split_taps() ends with a wait for all products, so it takes 8 or 4 taps at once where registers suffice.
    if constexpr (Traits::split && Traits::joint == 1 && Traits::columns <= 32) {
#pragma unroll 1
      for (; run >= 8; run -= 8) multiply_some.template operator()<8>();
    }
    if constexpr (Traits::split && Traits::joint == 1) {
#pragma unroll 1
      for (; run >= 4; run -= 4) multiply_some.template operator()<4>();
    }
#pragma unroll 1
    for (; run >= 2; run -= 2) multiply_some.template operator()<2>();
    if (run > 0) multiply_some.template operator()<1>();
    if (held.finished_weights < 0 && held.finished_halo < 0) continue;
    multiply_wait<1>();
    if (held.finished_weights >= 0) consumer_release_weights(shared, held.finished_weights);
    if (held.finished_halo >= 0) consumer_release_halo(shared, held.finished_halo);
    held.finished_weights = held.finished_halo = -1;
  }
}

// Calls f.operator()<steps>(). steps: matrix instructions along a row, 1 to 4; of split operands along a part, 1 or 2.
template <bool split, class F>
__device__ void with_steps(int steps, F&& f) {
  if constexpr (split) {
    steps == 1 ? f.template operator()<1>() : f.template operator()<2>();
  } else {
    switch (steps) {
      case 1:
        return f.template operator()<1>();
      case 2:
        return f.template operator()<2>();
      case 3:
        return f.template operator()<3>();
      default:
        return f.template operator()<4>();
    }
  }
}

// The products of one phase; they are in flight on return.
template <class Traits, int m_tiles = Traits::m_tiles>
__device__ void accumulate(const ConvParams& p, const Shared& shared, const Phase& c, const int (&offset)[m_tiles],
                           ConsumerStates& states, HeldStages& held, float (&sums)[m_tiles][Traits::across / 2]) {
  held.weight_tile = shared.weights + c.weights;
  held.tiles_left = p.all_weights ? c.taps * p.chunks : 0;  // a phase begins with a new stage
  held.add = 0;
  begin_sums<Traits::split>(sums);
  PipelineState first = states.halo;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (!p.resident) wait_converged(shared.halo_full(states.halo.index), states.halo.phase);
    with_steps<Traits::split>(chunk + 1 == p.chunks ? p.last_steps : p.steps, [&]<int steps>() {
      multiply_chunk<Traits, steps>(p, shared, c, offset, states.halo.index, states, held, sums);
    });
    if (!p.resident) held.finished_halo = states.halo.index;
    states.halo.advance();
  }
  if (p.resident) states.halo = first;
}

// The products of joint phases, chunk by chunk, as each chunk is loaded once for all of them. At least one phase has
// taps. The weights of each phase and chunk begin with a new stage.
template <class Traits, int joint, int m_tiles = Traits::m_tiles>
__device__ void accumulate_joint(const ConvParams& p, const Shared& shared, int number, int count,
                                 const int (&offset)[m_tiles], ConsumerStates& states, HeldStages& held,
                                 float (&sums)[joint][m_tiles][Traits::across / 2]) {
  PipelineState halo_stage = states.halo;
  for (int chunk = 0; chunk < p.chunks; ++chunk, halo_stage.advance()) {
    if (!p.resident) wait_converged(shared.halo_full(halo_stage.index), halo_stage.phase);
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      const Phase c = uniform(p.phases[number + j]);
      if (j >= count || c.taps == 0) continue;
      held.weight_tile = shared.weights + c.weights + chunk * c.taps * p.tile_units;
      held.tiles_left = p.all_weights ? c.taps : 0;
      held.add = chunk;
      with_steps<Traits::split>(chunk + 1 == p.chunks ? p.last_steps : p.steps, [&]<int steps>() {
        multiply_chunk<Traits, steps>(p, shared, c, offset, halo_stage.index, states, held, sums[j]);
      });
    }
    if (!p.resident) held.finished_halo = halo_stage.index;
  }
  if (!p.resident) states.halo = halo_stage;
}

// Weights in specialised variants. streamed_whole: streamed, in whole stages that hold pairs of taps.
enum class WeightResidency : int { streamed, streamed_whole, resident };

// The MainloopVariant with so many matrix instructions along a row: 2 or 4.
template <int steps, WeightResidency residency>
inline constexpr int variant_of =
    residency == WeightResidency::resident
        ? (steps == 2 ? MainloopVariant::two_steps_resident : MainloopVariant::four_steps_resident)
    : residency == WeightResidency::streamed_whole
        ? (steps == 2 ? MainloopVariant::two_steps_streamed_whole : MainloopVariant::four_steps_streamed_whole)
        : (steps == 2 ? MainloopVariant::two_steps_streamed : MainloopVariant::four_steps_streamed);
// Whether weights come in stages.
__device__ constexpr bool is_streamed(WeightResidency residency) { return residency != WeightResidency::resident; }

// The products of one phase in a specialised variant (MainloopVariant). steps: matrix instructions along a row.
template <class Traits, int steps, WeightResidency residency, int m_tiles = Traits::m_tiles>
__device__ void accumulate_specialised(const ConvParams& p, const Shared& shared, const Phase& c,
                                       const int (&offset)[m_tiles], ConsumerStates& states, HeldStages& held,
                                       float (&sums)[m_tiles][Traits::across / 2]) {
  const Operand inputs{shared.halo + states.halo.index * p.halo_stage_units, p.input_layout};
  constexpr bool whole = residency == WeightResidency::streamed_whole;
  const Operand weights{shared.weights, p.weight_layout};
  Listed listed{p, inputs.start, c.listed};
  int left = c.taps;
  leave_undefined(sums);
  const auto multiply_pairs = [&](int pairs) {
#pragma unroll 1
    for (; pairs > 0; --pairs)
      multiply_taps<Traits, steps, 2>(p, inputs, weights, offset, listed, held.weight_tile, 1, sums);
  };
  // The first product overwrites the sums, which the compiler knows here, so it makes no zeros.
  const auto multiply_first = [&](int taps) {
    if (!whole && taps % 2 != 0)
      multiply_taps<Traits, steps, 1>(p, inputs, weights, offset, listed, held.weight_tile, 0, sums);
    else
      multiply_taps<Traits, steps, 2>(p, inputs, weights, offset, listed, held.weight_tile, 0, sums);
    multiply_pairs((taps - 1) / 2);
  };
  if constexpr (!is_streamed(residency)) {
    held.weight_tile = shared.weights + c.weights;
    return multiply_first(left);
  }
  const auto begin_stage = [&] {
    held.finished_weights = held.weights;
    held.weights = states.weights.index;
    consumer_wait_weights(p, shared, states, held);
    return whole ? p.weight_stage_tiles : min(left, p.weight_stage_tiles);
  };
  const auto end_stage = [&] {
    left -= p.weight_stage_tiles;
    if (held.finished_weights < 0) return;
    multiply_wait<1>();
    consumer_release_weights(shared, held.finished_weights);
  };
  multiply_first(begin_stage());
  end_stage();
#pragma unroll 1
  while (left > 0) {
    const int taps = begin_stage();
    multiply_pairs(taps / 2);
    if (!whole && taps % 2 != 0)
      multiply_taps<Traits, steps, 1>(p, inputs, weights, offset, listed, held.weight_tile, 1, sums);
    end_stage();
  }
}

// Calls f.operator()<steps, WeightResidency>() if the variant is a specialised one; returns whether it is.
template <class F>
__device__ bool with_variant(int variant, F&& f) {
  if (variant == variant_of<2, WeightResidency::resident>)
    f.template operator()<2, WeightResidency::resident>();
  else if (variant == variant_of<4, WeightResidency::streamed_whole>)
    f.template operator()<4, WeightResidency::streamed_whole>();
  else if (variant == variant_of<2, WeightResidency::streamed_whole>)
    f.template operator()<2, WeightResidency::streamed_whole>();
  else if (variant == variant_of<4, WeightResidency::streamed>)
    f.template operator()<4, WeightResidency::streamed>();
  else if (variant == variant_of<2, WeightResidency::streamed>)
    f.template operator()<2, WeightResidency::streamed>();
  else if (variant == variant_of<4, WeightResidency::resident>)
    f.template operator()<4, WeightResidency::resident>();
  else
    return false;
  return true;
}

}  // namespace convt::core::cuda::sm90
