// SPDX-License-Identifier: Apache-2.0
// The kernel of sliding planes, for stride 1 and few output channels, which would not fill the columns of matrix
// instructions.
//
// A block slides along the first axis, input plane by input plane. The three taps along that axis are joined: the
// products of a plane have three times the columns, one part for each of the three output planes that it contributes
// to. After each plane the first part is complete and leaves; the others move up. All weights are resident, and every
// input plane is read once.
#pragma once

#include "cuda/sm90/epilogue/registers.cuh"
#include "cuda/sm90/kernel/conv.cuh"
#include "cuda/sm90/loader/planes.cuh"
#include "cuda/sm90/mainloop/sliding.cuh"
#include "cuda/sm90/store/planes.cuh"

namespace convt::core::cuda::sm90 {

// Runs the epilogue of a complete plane, and stages it.
template <class Traits>
__device__ void finish_plane(const ConvParams& p, const Memory& memory, [[maybe_unused]] int plane,
                             float (&complete)[1][Traits::m_tiles][Traits::columns / 2], int& staged) {
  const auto writer_as = [&]<class To>() {
    staging_acquire(memory.shared, staged);
    return PlaneStager<To, Traits::columns, Traits::m_tiles>(memory.epilogue);
  };
  if constexpr (Traits::programmed)
    Traits::Epilogue::template finish_plane<Traits>(p, memory, plane, writer_as, complete);
  else
    finish<typename Traits::Element, Centred>(p.epilogue, scale_bias_in<Traits::columns>(memory.epilogue), p, writer_as,
                                              complete);
  staging_commit(memory.shared, staged);
}

template <class Traits>
__device__ void slide(const ConvParams& p, const Memory& memory) {
  const Shared& shared = memory.shared;
  constexpr int n = Traits::columns, all = joined_taps * n, m_tiles = Traits::m_tiles;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[m_tiles];  // of each row tile, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < m_tiles; ++b) offset[b] = p.m_tile_offset[group * m_tiles + b];
  PipelineState halo_stage{p.halo_stages};
  int band = -1, staged = 0;
  if constexpr (Traits::programmed)
    Traits::Epilogue::template fill<Traits>(p, 0, band, memory);
  else
    fill_scale_bias<n, sliding_roles.first_producer()>(p, 0, band, memory.epilogue, first_chain);
  if (!shared.nonfinite) wait_converged(shared.weights_full(0), 0);
  for_each_plane_range<Traits>(p, [&](const PlaneRange& range) {
    keep_work(range.work(p), memory.work());
    float sums[m_tiles][all / 2];
    clear<all, m_tiles>(sums);
    const auto leave = [&](int z) {  // output plane z is complete
      if (z >= range.first) {
        float complete[1][m_tiles][n / 2];
        if (!Traits::guarded && shared.nonfinite) {
          accumulate_nonfinite<typename Traits::Element, n, joined_taps, PositionsAsRows<n>, m_tiles>(
              p, *memory.work(), 0, z, 0, 0, complete[0]);
        } else {
#pragma unroll
          for (int b = 0; b < m_tiles; ++b)
#pragma unroll
            for (int k = 0; k < n / 2; ++k) complete[0][b][k] = sums[b][k];
        }
        finish_plane<Traits>(p, memory, z, complete, staged);
      }
      move_up<n, m_tiles>(sums);
    };
    if constexpr (n < 32) {
      // This loop visits only input planes inside the image; output planes that need no further input plane follow the
      // last one. If sums could bypass the products, the compiler would move them four times. Every output plane has an
      // input plane: with stride 1 and three taps, none lies further outside than the taps reach.
      const Inputs inputs(p.axis[0], range);
      int z = shared.nonfinite ? range.first : inputs.first - range.to_input;
#pragma unroll 1
      for (int left = shared.nonfinite ? 1 : inputs.count; left > 0; --left) {
        if (shared.nonfinite)
          leave_undefined(sums);
        else
          multiply_plane<Traits::format, all, m_tiles>(p, shared, offset, halo_stage, sums);
        const int end = left > 1 ? z + 1 : range.end;
#pragma unroll 1
        do leave(z);
        while (++z < end);
      }
    } else {
      // The loop above needs registers for sums and results together, which 32 columns do not leave.
#pragma unroll 1
      for (int z = range.first - (joined_taps - 1); z < range.end; ++z) {
        if (!shared.nonfinite && is_inside(p.axis[0], z + range.to_input))
          multiply_plane<Traits::format, all, m_tiles>(p, shared, offset, halo_stage, sums);
        leave(z);
      }
    }
  });
}

template <class Traits>
__global__ void __launch_bounds__(sliding_roles.threads(), 1) sliding_kernel(const __grid_constant__ ConvParams p) {
  if (!must_run<Traits>(p)) return;
  const int tile_bytes = joined_taps * Traits::columns * p.row_bytes;
  Memory memory(p, tile_bytes, sliding_roles.warps());
  if (threadIdx.x == 0)
    init_barriers(p, memory.shared, sliding_producer_warps, sliding_roles.consumer_warps(), 1,
                  sliding_roles.first_producer());
  __syncthreads();
  memory.shared.nonfinite = has_nonfinite_weights<Traits>(p);
  if (threadIdx.x >= sliding_roles.first_writer()) {
    give_registers<Traits::roles.writer_registers>();
    if (threadIdx.x == sliding_roles.first_writer() && !memory.shared.nonfinite)
      load_weights(p, memory.shared, tile_bytes);
    using E = typename Traits::Element;
    if (sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
      write_planes<Traits, E>(p, memory);
    else
      write_planes<Traits, float>(p, memory);
  } else if (threadIdx.x >= sliding_roles.first_producer()) {
    give_registers<Traits::roles.producer_registers>();
    if (memory.shared.nonfinite) return;
    fill_planes<Traits>(p, memory);
  } else {
    take_registers<Traits::roles.consumer_registers>();
    slide<Traits>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
