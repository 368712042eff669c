// SPDX-License-Identifier: Apache-2.0
// The epilogue of register programs: passes over all accumulators.
#pragma once

#include "cuda/sm90/epilogue/program_values.cuh"
#include "cuda/sm90/epilogue/scale_bias.cuh"
#include "cuda/sm90/store/planes.cuh"

namespace convt::core::cuda::sm90 {

// Runs a program's passes, 8 columns of some row tiles at a time. The last pass gives the columns from 8*i on to put(i,
// x) of writer_of(b), b being the first row tile. values_at(i, b) describes them. Results have type E.
template <class E, int n, int joint, int m_tiles, class WriterOf, class ValuesAt>
__device__ __forceinline__ void finish_program(const ConvParams& p, const Memory& memory, const WriterOf& writer_of,
                                               const ValuesAt& values_at, float (&sums)[joint][m_tiles][n / 2]) {
  constexpr int at_hand = m_tiles_at_hand(n, joint, m_tiles), count = joint * at_hand * 4;
  constexpr bool mixes = decltype(values_at(0, 0))::mixes;
  // For each phase the row tiles at hand side by side, or one after the other if there is one at hand.
  auto& parts = reinterpret_cast<float(&)[joint * at_hand][n / 2 * m_tiles / at_hand]>(sums);
  const RegisterProgram& program = p.program;
  float aside[count];
#pragma unroll
  for (float& x : aside) leave_undefined(x);
  // Recomputed for each group of columns, to save registers.
  const auto is_there = [&](int i) {
    return 8 * i < (p.bands == 1 ? p.out_channels : p.out_channels - uniform(memory.work()->band) * n);
  };
  const auto run_pass = [&](int first, int end, int groups, int b, const auto& then) {
#pragma unroll 1
    for (int i = 0; i < groups && is_there(i); ++i) {
      float x[joint][at_hand][4];
      auto& flat = reinterpret_cast<float(&)[count]>(x);
      take_values<4>(parts, b * (n / 8) + i, flat);
      run_steps<E>(values_at(i, b), first, end, flat, aside);
      then(i, x, flat);
    }
  };
#pragma unroll 1
  for (int b = 0; b < m_tiles; b += at_hand) {
    const auto writer = writer_of(b);
    writer.with_put([&](auto&& put) {
      if constexpr (!mixes) {
        run_pass(0, program.count, n / 8, b, [&](int i, const auto& x, const auto&) { put(i, x); });
      } else {
#pragma unroll 1
        for (int number = 0; number < program.pass_count; ++number) {
          const RegisterProgram::Pass& pass = program.passes[number];
          if (pass.statistic >= 0) begin_statistic<E>(program.steps[pass.statistic], aside);
          run_pass(pass.first, pass.end, pass.one ? 1 : n / 8, b, [&](int i, const auto& x, const auto& flat) {
            if (pass.stores)
              put(i, x);
            else if (pass.changes)
              put_values<4>(flat, b * (n / 8) + i, parts);
          });
          if (pass.statistic >= 0) end_statistic<E>(program.steps[pass.statistic], p.out_channels, aside);
        }
      }
    });
  }
}

// Traits::Epilogue of kernels that run register programs.
struct ProgramEpilogue {
  // Fills shared memory with the per-channel values of a band. All consumers call it; `filled` is the band that is
  // there.
  template <class Traits>
  __device__ static void fill(const ConvParams& p, int band, int& filled, const Memory& memory) {
    fill_channel_values<Traits::columns, Traits::roles.first_producer()>(p, band, filled, memory.epilogue);
  }

  // A phase, or two neighbours along w.
  template <class Traits, int joint, int m_tiles, int count>
  __device__ static __forceinline__ void finish_phases(const ConvParams& p, const Memory& memory, const Phase& c,
                                                       float (&sums)[joint][m_tiles][count]) {
    using E = typename Traits::Element;
    constexpr int n = Traits::columns;
    using Values = PhaseValues<Traits>;
    using Store = typename Traits::StorePolicy;
    const auto writer_of = [&](int b) {
      if constexpr (requires { typename Store::template LateWriter<Traits>; })
        return typename Store::template LateWriter<Traits>{p, memory, c};
      else
        return Store::template program_writer<Traits>(p, memory, c, b);
    };
    finish_program<E, n>(
        p, memory, writer_of, [&](int i, int b) { return Values(p, memory, i, c, b); }, sums);
  }

  // A sliding plane.
  template <class Traits>
  __device__ static __forceinline__ void finish_plane(const ConvParams& p, const Memory& memory, int plane,
                                                      float (&sums)[1][Traits::m_tiles][Traits::columns / 2]) {
    using E = typename Traits::Element;
    constexpr int n = Traits::columns, m_tiles = Traits::m_tiles;
    using Values = PlaneValues<n>;
    finish_program<E, n>(
        p, memory, [&](int) { return EitherStager<E, n, m_tiles>(p, memory.epilogue); },
        [&](int i, int) { return Values(p, memory, i, plane); }, sums);
  }

  // With swapped operands: a warpgroup's tile to [channel][tile][column], as stage_m_tile() does.
  template <class E>
  __device__ static __forceinline__ void stage(const ConvParams& p, const Memory& memory,
                                               float (&sums)[1][swapped_positions / 2]) {
    constexpr int groups = 2, count = groups * SwappedFragment::each;  // at a time
    E* const to = staged_in<E, swapped_channels>(memory.epilogue) + SwappedFragment::channel(0) * swapped_pitch +
                  threadIdx.x / group_threads * swapped_positions + SwappedFragment::position();
    float aside[count];
#pragma unroll
    for (float& x : aside) leave_undefined(x);
#pragma unroll 1
    for (int i = 0; i < SwappedFragment::groups / groups; ++i) {
      float x[count];
      take_values<count>(sums, i, x);
      run_steps<E>(SwappedValues{p, memory, i * groups}, 0, p.program.count, x, aside);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        const float* const own = x + g * SwappedFragment::each;
        E* const at = to + 8 * (i * groups + g);
        *reinterpret_cast<Pair<E>*>(at) = pair_of<E>(own[0], own[1]);
        *reinterpret_cast<Pair<E>*>(at + 8 * swapped_pitch) = pair_of<E>(own[2], own[3]);
      }
    }
  }
};

}  // namespace convt::core::cuda::sm90
