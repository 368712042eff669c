// SPDX-License-Identifier: Apache-2.0
// Pools whose windows are the phases of a position: phases are folded into one result, one after the other.
#pragma once

#include "cuda/sm90/epilogue/registers.cuh"
#include "cuda/sm90/mainloop/phases.cuh"
#include "cuda/sm90/store/direct.cuh"

namespace convt::core::cuda::sm90 {

// Whether an epilogue warpgroup's fold is that of raw accumulators; else it is one of norms without affine.
__device__ __forceinline__ bool is_max_of_sums(const Fold& fold) { return fold.mode == Fold::max_of_sums; }

// The folded results. The offsets of norms are summed apart and added at the end. `offset` is in memory, to save
// registers.
template <int n>
struct Folded {
  float results[1][1][n / 2];
  float2& offset;

  __device__ Folded(const Fold& fold, float2& offset_) : offset(offset_) {
    offset = {0, 0};
#pragma unroll
    for (float& x : results[0][0]) x = fold.mode >= Fold::max ? -INFINITY : 0.0f;
  }
  __device__ void add(const PerRow<1, 1>& scale, const float (&x)[1][1][n / 2]) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] = fmaf(x[0][0][i], scale[0][0][i / 2 % 2], results[0][0][i]);
  }
  __device__ void add(const Shifted<1, 1>& rows, const float (&x)[1][1][n / 2]) {
    const float2 before = offset;
    offset = {before.x + rows.offset[0][0][0], before.y + rows.offset[0][0][1]};
    add(rows.scale, x);
  }
  // Adds a norm without affine.
  template <bool precise>
  __device__ void add_norm(const RegisterEpilogue& chain, float (&x)[1][1][n / 2]) {
    if constexpr (precise) {
      Centred<1, 1> rows;
      centre<n, true>(chain, n, x, rows.scale);
      add(rows.scale, x);
    } else {
      Shifted<1, 1> rows;
      centre_at_once<n>(chain, x, rows);
      add(rows, x);
    }
  }
  __device__ void add_greater(const float (&x)[1][1][n / 2]) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] = maximum(results[0][0][i], x[0][0][i]);
  }
  __device__ void end(const Fold& fold) {
    if (fold.mode != Fold::sum_of_norm_without_affine) return;
    const float2 all = offset;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] += i / 2 % 2 == 0 ? all.x : all.y;
  }
};
// Runs the chain of one phase and folds its result.
template <bool precise, int n>
__device__ void fold_phase(const ConvParams& p, const ScaleBiasTable<n>& table, float (&x)[1][1][n / 2],
                           Folded<n>& folded) {
  const Fold::Mode mode = p.fold.mode;
  if (mode == Fold::sum_of_norm_without_affine) return folded.template add_norm<precise>(p.epilogue, x);
  if (mode == Fold::max_of_sums) return folded.add_greater(x);
  float(&results)[n / 2] = folded.results[0][0];
  Centred<1, 1> rows;
  start_epilogue(p.epilogue, p.out_channels, table, x, rows);
  if (mode == Fold::sum_of_norm) return folded.add(rows.scale, x);
  if (p.epilogue.norm != 0) end_norm(rows, x);
  const auto into = [&](auto&& join) {
    for_columns<n>(n, x, [&](int i, Columns<1, 1>& ended) {
      end_columns<precise>(p.epilogue, table, i, ended);
      if (p.epilogue.scale_bias[RegisterEpilogue::last].present)
        apply_scale_bias(table.at(RegisterEpilogue::last, i), ended);
#pragma unroll
      for (int k = 0; k < 4; ++k) results[4 * i + k] = join(results[4 * i + k], ended[0][0][k]);
    });
  };
  if (mode == Fold::max)
    into([](float a, float b) { return maximum(a, b); });
  else
    into([](float a, float b) { return a + b; });
}

// Calls into(sums) for each phase, in the specialised variant with streamed weights: no branch between phases.
template <class Traits, int steps, class Into>
__device__ __forceinline__ void fold_specialised(const ConvParams& p, const Shared& shared, const int (&offset)[1],
                                                 ConsumerStates& states, const Into& into) {
  states.halo = uniform(states.halo);
  states.weights = uniform(states.weights);
  int number = 0;
#pragma unroll 1
  do {
    float sums[1][1][Traits::columns / 2];
    HeldStages held;
    accumulate_specialised<Traits, steps, WeightResidency::streamed>(p, shared, p.phases[number], offset, states, held,
                                                                     sums[0]);
    ++number;
    multiply_wait<0>();
    consumer_release_weights(shared, held.weights);
    into(sums);
  } while (number < p.phase_count);
}

// Folds all phases of a position into one result.
template <class Traits>
__device__ __forceinline__ void run_folded(const ConvParams& p, int variant, const int (&offset)[Traits::m_tiles],
                                           ConsumerStates& states, const Memory& memory) {
  static_assert(Traits::m_tiles == 1);
  constexpr int n = Traits::columns;
  using E = PlainInput<Traits>;
  Folded<n> folded(p.fold,
                   *reinterpret_cast<float2*>(memory.output_offset() + 1));  // after the offset of its only row tile
  const Fold::Mode mode = p.fold.mode;
  const auto specialised = [&](const auto& into) {
    using enum WeightResidency;
    if (variant == variant_of<4, streamed> || variant == variant_of<4, streamed_whole>)
      fold_specialised<Traits, 4>(p, memory.shared, offset, states, into);
    else if (variant == variant_of<2, streamed> || variant == variant_of<2, streamed_whole>)
      fold_specialised<Traits, 2>(p, memory.shared, offset, states, into);
    else
      return false;
    return true;
  };
  bool done = false;
  if constexpr (Traits::split)  // split operands have only the general variant
    done = false;
  else if (mode == Fold::sum_of_norm_without_affine)
    done = specialised([&](float(&x)[1][1][n / 2]) { folded.template add_norm<false>(p.epilogue, x); });
  else if (mode == Fold::max_of_sums)
    done = specialised([&](float(&x)[1][1][n / 2]) { folded.add_greater(x); });
  int number = done ? p.phase_count : 0;
#pragma unroll 1
  for (; number < p.phase_count; ++number) {
    float sums[1][1][n / 2];
    sum_phases<Traits, 1>(p, memory, variant, number, 1, offset, states, sums);
    fold_phase<Traits::split>(p, scale_bias_in<n>(memory.epilogue), sums, folded);
  }
  folded.end(p.fold);
  finish<E, Centred>(p.after_fold, scale_bias_in<n>(memory.epilogue, 1), p,
                     Results<n, 1, 1>{p, memory, p.phases[0].bits, p.phases[0].result}, folded.results);
}

}  // namespace convt::core::cuda::sm90
