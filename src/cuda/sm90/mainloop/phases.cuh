// SPDX-License-Identifier: Apache-2.0
// The main loop of one phase, or of joint phases.
#pragma once

#include "cuda/sm90/mainloop/nonfinite.cuh"
#include "cuda/sm90/mainloop/products.cuh"
#include "cuda/sm90/pipeline/shared_memory.cuh"

namespace convt::core::cuda::sm90 {

template <int n, int m_tiles>
__device__ void clear(float (&sums)[m_tiles][n / 2]) {
#pragma unroll
  for (auto& m_tile : sums)
#pragma unroll
    for (float& x : m_tile) x = 0;
}

// Releases the halo chunks of a phase whose products tensor cores do not compute.
__device__ inline void skip_chunks(const ConvParams& p, const Shared& shared, PipelineState& halo_stage) {
  for (int chunk = 0; chunk < p.chunks; ++chunk, halo_stage.advance()) {
    wait_converged(shared.halo_full(halo_stage.index), halo_stage.phase);
    consumer_release_halo(shared, halo_stage.index);
  }
}

// The element type of the non-finite-weight path.
template <class Traits>
using PlainInput = std::conditional_t<Traits::split, SplitTf32, typename Traits::Element>;

// Inf, and finite numbers that tf32 rounds to Inf, give NaN as split operands. So a warp that finds NaN among its sums
// computes them again by plain multiply-adds.
template <class Traits, int joint>
__device__ void mend_split_sums(const ConvParams& p, const Memory& memory, int number, int count,
                                float (&sums)[joint][Traits::m_tiles][Traits::across / 2]) {
#pragma unroll
  for (int j = 0; j < joint; ++j) {
    bool has_nan = false;
#pragma unroll
    for (const auto& m_tile : sums[j])
#pragma unroll
      for (const float x : m_tile) has_nan |= isnan(x);
    if (!__any_sync(~0U, has_nan)) continue;
    const WorkTile work = *memory.work();
    const int own = number + (j < count ? j : 0), phase = p.phases[own].bits;
    accumulate_nonfinite<SplitTf32, Traits::columns, 1, PositionsAsRows<Traits::columns>, Traits::m_tiles>(
        p, work, own, phase_along(phase, 0), phase_along(phase, 1), phase_along(phase, 2), sums[j]);
  }
}

// The sums of `count` neighbouring phases along w in the general variant; `number` is the index of the first.
template <class Traits, int joint>
__device__ void sum_phases_any(const ConvParams& p, const Memory& memory, int number, int count,
                               const int (&offset)[Traits::m_tiles], ConsumerStates& states, HeldStages& held,
                               float (&sums)[joint][Traits::m_tiles][Traits::across / 2]) {
  constexpr int n = Traits::columns, m_tiles = Traits::m_tiles;
  using Layout = std::conditional_t<Traits::swapped, PositionsAsColumns, PositionsAsRows<n, Traits::duplicated>>;
  const Shared& shared = memory.shared;
  if (shared.nonfinite) {
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      if constexpr (Traits::guarded) {
        accumulate_nothing(sums[j]);
      } else {
        const WorkTile work = *memory.work();  // a copy: its address would take a register for a rare call
        const int own = number + (j < count ? j : 0), phase = p.phases[own].bits;
        accumulate_nonfinite<PlainInput<Traits>, n, 1, Layout, m_tiles>(
            p, work, own, phase_along(phase, 0), phase_along(phase, 1), phase_along(phase, 2), sums[j]);
      }
    }
    if (!p.resident && has_taps(p, number, count)) skip_chunks(p, shared, states.halo);
    return;
  }
  if constexpr (joint == 1) {
    const Phase c = uniform(p.phases[number]);
    if (c.taps == 0) return clear<Traits::across, m_tiles>(sums[0]);
    accumulate<Traits>(p, shared, c, offset, states, held, sums[0]);
  } else {
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      if (j < count && p.phases[number + j].taps > 0)
        begin_sums<Traits::split>(sums[j]);
      else
        clear<Traits::across, m_tiles>(sums[j]);
    }
    if (!has_taps(p, number, count)) return;
    accumulate_joint<Traits, joint>(p, shared, number, count, offset, states, held, sums);
  }
  multiply_wait<0>();
}
// The sums of `count` neighbouring phases along w, in the variant that ConvParams chose.
template <class Traits, int joint>
__device__ void sum_phases(const ConvParams& p, const Memory& memory, int variant, int number, int count,
                           const int (&offset)[Traits::m_tiles], ConsumerStates& states,
                           float (&sums)[joint][Traits::m_tiles][Traits::across / 2]) {
  const Shared& shared = memory.shared;
  states.halo = uniform(states.halo);
  states.weights = uniform(states.weights);
  HeldStages held;
  if constexpr (!Traits::swapped && !Traits::k_heavy && !Traits::split) {  // these have only the general variant
    const bool specialised = with_variant(variant, [&]<int steps, WeightResidency residency>() {
#pragma unroll
      for (int j = 0; j < joint; ++j) {
        accumulate_specialised<Traits, steps, residency>(p, shared, p.phases[number + j], offset, states, held,
                                                         sums[j]);
      }
      multiply_wait<0>();
      if constexpr (is_streamed(residency)) consumer_release_weights(shared, held.weights);
    });
    if (specialised) return;
  }
  sum_phases_any<Traits, joint>(p, memory, number, count, offset, states, held, sums);
  if (held.finished_halo >= 0) consumer_release_halo(shared, held.finished_halo);
  if (held.weights >= 0) consumer_release_weights(shared, held.weights);
  if constexpr (std::is_same_v<typename Traits::Input, SplitTf32>) {
    if (!shared.nonfinite) mend_split_sums<Traits, joint>(p, memory, number, count, sums);
  }
}

}  // namespace convt::core::cuda::sm90
