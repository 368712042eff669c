// SPDX-License-Identifier: Apache-2.0
// The epilogue of register programs: runs the passes of a program on a thread's accumulators.
#pragma once

#include "cuda/sm90/epilogue/program_values.cuh"
#include "cuda/sm90/epilogue/registers.cuh"
#include "cuda/sm90/mainloop/phases.cuh"
#include "cuda/sm90/store/planes.cuh"

namespace convt::core::cuda::sm90 {

// Moves the first values of every part to its end.
template <int by, int parts, int count>
__device__ void rotate(float (&x)[parts][count]) {
#pragma unroll
  for (auto& part : x) {
    float first[by];
#pragma unroll
    for (int k = 0; k < by; ++k) first[k] = part[k];
#pragma unroll
    for (int k = 0; k < count - by; ++k) part[k] = part[k + by];
#pragma unroll
    for (int k = 0; k < by; ++k) part[count - by + k] = first[k];
  }
}

// Runs a narrow pass. Registers cannot be indexed, so x rotates: each turn has other groups of columns at its front.
template <class E, class Values, int parts, int count>
__device__ __forceinline__ void run_narrow(const Values& values, const RegisterProgram::Pass& pass,
                                           float (&x)[parts][count], RowStatistics<parts>& rows) {
  constexpr int groups = groups_at_hand(count / 4, parts, Values::has_room), turns = count / 4 / groups;
  const RegisterProgram& program = values.p.program;
  const int first = pass.first, end = pass.end;
  const bool one = turns == 1 || pass.one;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    if (values.has_group(turn * groups)) {
      float aside[parts][4 * groups];
      if constexpr (Values::has_room) {
#pragma unroll
        for (auto& part : aside)
#pragma unroll
          for (float& v : part) leave_undefined(v);
      }
      int next = program.codes[first];  // loaded while the step before it runs
#pragma unroll 1
      for (int s = first; s < end; ++s) {
        const int code = next;
        next = program.codes[s + 1];
        apply_some<E, groups>(values, turn * groups, code, program.steps[s], x, rows, aside);
      }
    }
    if (one) break;
    rotate<4 * groups>(x);
  }
}

template <class E, class Values, int parts, int count>
__device__ __forceinline__ void run_program(const Values& values, float (&x)[parts][count]) {
  const RegisterProgram& program = values.p.program;
  RowStatistics<parts> rows;
  if constexpr (Values::has_room) {
#pragma unroll
    for (int r = 0; r < 2 * parts; ++r) {
      leave_undefined(rows.centre[r]);
      leave_undefined(rows.scale[r]);
    }
  }
#pragma unroll 1
  for (int number = 0; number < program.pass_count; ++number) {
    const RegisterProgram::Pass& pass = program.passes[number];
    if (pass.wide) {
#pragma unroll 1
      for (int s = pass.first; s < pass.end; ++s) {
        if constexpr (!Values::has_room) keep_in_memory(rows.centre);
        apply_wide<E>(values, program.codes[s], program.steps[s], x, rows);
      }
    } else {
      run_narrow<E>(values, pass, x, rows);
    }
  }
}

// Runs a program and gives its results to writer_as<ResultOf<E>>(), 8 columns at a time. Results between stages of a
// schedule are floats, whatever E is.
template <class E, int n, class Values, class WriterAs, int joint, int m_tiles>
__device__ __forceinline__ void finish_program(const Values& values, const WriterAs& writer_as,
                                               float (&sums)[joint][m_tiles][n / 2]) {
  run_program<E>(values, reinterpret_cast<float(&)[joint * m_tiles][n / 2]>(sums));
  const auto write_as = [&]<class To>() {
    const auto writer = writer_as.template operator()<To>();
    writer.with_put([&](auto&& put) {
      for_columns<n>(writer.channels(), sums, [&](int i, const Columns<joint, m_tiles>& x) { put(i, x); });
    });
  };
  if (OfOwnType<WriterAs> || sizeof(E) == sizeof(float) || values.p.to.dtype != CONVT_F32)
    write_as.template operator()<ResultOf<E>>();
  else if constexpr (!OfOwnType<WriterAs>)
    write_as.template operator()<float>();
}

// Traits::Epilogue of kernels that run register programs.
struct ProgramEpilogue {
  // Fills shared memory with the per-channel values of a band. All consumers call it. filled: the band whose values
  // shared memory has.
  template <class Traits>
  __device__ static void fill(const ConvParams& p, int band, int& filled, const Memory& memory) {
    fill_channel_values<Traits::columns, Traits::roles.first_producer()>(p, band, filled, memory.epilogue);
  }

  // Called before the products of a phase: prefetches the tensor elements that its steps will load.
  template <class Traits>
  __device__ static __forceinline__ void prefetch(const ConvParams& p, const Memory& memory, const Phase& c) {
    if (p.program.tensors == 0) return;
    const PhaseValues<Traits> values(p, memory, c);
#pragma unroll 1
    for (int s = 0; s < p.program.count; ++s) {
      const RegisterProgram::Step& step = p.program.steps[s];
      if (step.code >= RegisterProgram::with_tensor && step.code < RegisterProgram::with_kept)
        values.prefetch_others(step, step.dtype == CONVT_F32 ? 4 : 2);
    }
  }
  // A phase, or two neighbours along w.
  template <class Traits, int joint, int m_tiles, int count>
  __device__ static __forceinline__ void finish_phases(const ConvParams& p, const Memory& memory, const Phase& c,
                                                       float (&sums)[joint][m_tiles][count]) {
    using Results = typename Traits::StorePolicy::template Results<Traits>;
    finish_program<PlainInput<Traits>, Traits::columns>(PhaseValues<Traits>(p, memory, c),
                                                        Results{p, memory, c.bits, c.result}, sums);
  }

  // A sliding plane.
  template <class Traits, class WriterAs>
  __device__ static __forceinline__ void finish_plane(const ConvParams& p, const Memory& memory, int plane,
                                                      const WriterAs& writer_as,
                                                      float (&sums)[1][Traits::m_tiles][Traits::columns / 2]) {
    constexpr int n = Traits::columns;
    finish_program<typename Traits::Element, n>(PlaneValues<n>(p, memory, plane), writer_as, sums);
  }

  // A warpgroup's tile with swapped operands. The caller stages it.
  template <class E>
  __device__ static __forceinline__ void run_swapped(const ConvParams& p, const Memory& memory,
                                                     float (&sums)[1][swapped_positions / 2]) {
    run_program<E>(SwappedValues{p, memory}, sums);
  }
};

}  // namespace convt::core::cuda::sm90
