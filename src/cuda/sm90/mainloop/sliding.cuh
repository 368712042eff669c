// SPDX-License-Identifier: Apache-2.0
// Products of joined taps: an input plane into the sums of three output planes.
#pragma once

#include "cuda/sm90/mainloop/products.cuh"

namespace convt::core::cuda::sm90 {

// One chunk of channels of a plane. Releases the previous stage when its products are done.
template <Format format, int n, int m_tiles, int steps>
__device__ void multiply_joined(const ConvParams& p, const Shared& shared, int chunk, const int (&offset)[m_tiles],
                                const PipelineState& halo_stage, float (&sums)[m_tiles][n / 2]) {
  constexpr int step_units = step_bytes / 16;
  const Operand tile{shared.halo + halo_stage.index * p.halo_stage_units, p.input_layout};
  const Operand all_weights{shared.weights, p.weight_layout};
  int weights = all_weights.start + chunk * p.taps * p.tile_units;
  Walk walk(p, p.phases[0], tile.start + p.phases[0].offset);
  int left = p.taps;
#pragma unroll 1
  do {
    multiply_begin();
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int i = 0; i < m_tiles; ++i)
        multiply<format, n>(sums[i], tile.at(walk.offset + offset[i] + k * step_units),
                            all_weights.at(weights + k * step_units));
    multiply_commit();
    weights += p.tile_units;
    walk.next();
  } while (--left > 0);
  if (chunk == 0) return;
  multiply_wait<1>();
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(halo_stage.previous()));
}

// One input plane into the sums of the three output planes that it belongs to.
template <Format format, int n, int m_tiles>
__device__ void multiply_plane(const ConvParams& p, const Shared& shared, const int (&offset)[m_tiles],
                               PipelineState& halo_stage, float (&sums)[m_tiles][n / 2]) {
  int chunk = 0;
  do {
    wait_converged(shared.halo_full(halo_stage.index), halo_stage.phase);
    with_steps<false>(chunk + 1 == p.chunks ? p.last_steps : p.steps, [&]<int steps>() {
      multiply_joined<format, n, m_tiles, steps>(p, shared, chunk, offset, halo_stage, sums);
    });
    halo_stage.advance();
  } while (++chunk < p.chunks);
  multiply_wait<0>();
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(halo_stage.previous()));
}

// Moves the sums of the next two output planes up; zeros follow.
template <int n, int m_tiles>
__device__ void move_up(float (&sums)[m_tiles][joined_taps * n / 2]) {
#pragma unroll
  for (int b = 0; b < m_tiles; ++b)
#pragma unroll
    for (int k = 0; k < joined_taps * n / 2; ++k)
      sums[b][k] = k < n ? sums[b][(k + n / 2) % (joined_taps * n / 2)] : 0.0f;
}

}  // namespace convt::core::cuda::sm90
