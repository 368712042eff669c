// SPDX-License-Identifier: Apache-2.0
// The weight loader. Bulk copies bring all weights at once (resident) or stage by stage (streamed).
#pragma once

#include "cuda/sm90/pipeline/shared_memory.cuh"

namespace convt::core::cuda::sm90 {

// Loads resident weights. One thread calls it.
__device__ inline void load_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const int bytes = p.taps * p.chunks * tile_bytes;
  arrive_expecting(shared.weights_full(0), bytes);
  copy_bulk(shared.weights_address, p.weights, bytes, shared.weights_full(0));
}

// Streams weights. One thread calls it.
template <class Traits>
__device__ void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  constexpr bool splits = Traits::splits;
  constexpr int joint = Traits::joint;
  const auto* const all = static_cast<const unsigned char*>(p.weights);
  PipelineState stage{p.weight_stages};
  PartialTile partial = splits ? first_partial<Traits>(p) : PartialTile{0, 0, p.phase_count, 0, 0};
  WorkTile work = splits ? work_tile_at(p, partial.number) : first_work_tile<Traits>(p);
  // Streams consecutive tiles.
  const auto stream = [&](const unsigned char* from, int tiles) {
    for (; tiles > 0; tiles -= p.weight_stage_tiles, from += p.weight_stage_tiles * tile_bytes) {
      const int bytes = min(p.weight_stage_tiles, tiles) * tile_bytes;
      wait(shared.weights_empty(stage.index), stage.phase ^ 1);
      arrive_expecting(shared.weights_full(stage.index), bytes);
      copy_bulk(shared.weights_address + stage.index * p.weight_stage_tiles * tile_bytes, from, bytes,
                shared.weights_full(stage.index));
      stage.advance();
    }
  };
  int left = work_tile_count<Traits>(p);
  bool more = true;
  while (more) {
    const auto* const band = all + static_cast<std::int64_t>(work.band) * p.taps * p.chunks * tile_bytes;
    for (int number = partial.first; number < partial.end;) {
      const int count = joint_phases<joint>(p, number);
      // Joint phases are streamed chunk by chunk, as consumers need them.
      for (int chunk = 0; chunk < (joint == 1 ? 1 : p.chunks); ++chunk)
        for (int j = 0; j < count; ++j) {
          const Phase& c = p.phases[number + j];
          stream(band + (c.first_tap * p.chunks + chunk * c.taps) * static_cast<std::int64_t>(tile_bytes),
                 joint == 1 ? c.taps * p.chunks : c.taps);
        }
      number += count;
    }
    more = splits ? partial.more > 0 : --left > 0;
    splits ? advance_partial<Traits>(p, work, partial) : advance_work<Traits>(p, work);
  }
}

}  // namespace convt::core::cuda::sm90
