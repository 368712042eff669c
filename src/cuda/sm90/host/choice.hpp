// SPDX-License-Identifier: Apache-2.0
// The tiles of a plan, and which of them runs a job.
#pragma once

#include "cuda/schedule/convolver.hpp"
#include "cuda/sm90/host/make_program.hpp"
#include "cuda/sm90/host/tiles.hpp"

namespace convt::core::cuda::sm90 {

// The tiles of a plan. preferred: for chains that run in registers. plain: for results that the preferred tile cannot
// store, because of their dtype, layout or distances. folded: for folded pools. strip: for all other chains.
struct Choice {
  Geometry geometry;
  Tile preferred, plain, folded, strip;
};

// What decides which tile runs a job.
struct Demand {
  ChainPlace place = ChainPlace::epilogue;
  bool pools = false, mixes = false;  // mixes: a program with steps over channels
  int channels = 0;                   // of the results
  std::int64_t width = 0;             // of the slab's box
  View to;
};
// Of a job, and of a job that is planned: the same, but for the alignment of addresses.
Demand demand_of(const ConvJob& job, const Geometry& geometry);
Demand demand_of(const PlannedJob& job, const Program& program, const Geometry& geometry);

// Whether all of the job's chain runs in registers.
bool runs_in_registers(const Demand& demand, const Program& program, const Choice& choice);
const Tile& tile_for(const Demand& demand, const Program& program, const Choice& choice);

}  // namespace convt::core::cuda::sm90
