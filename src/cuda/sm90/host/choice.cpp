// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/choice.hpp"

#include <algorithm>
#include <span>

#include "cuda/sm90/host/outputs.hpp"
#include "cuda/sm90/host/register_epilogue.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// Whether the job's chains are register epilogues.
bool are_short(const ConvJob& job, int channels) {
  RegisterEpilogue before, after;
  return match_epilogue(job.chain, channels, before) && match_epilogue(job.behind, channels, after);
}

// Whether the whole tensors that the job's chain takes have its results' strides.
bool has_tensors_like(const PlannedJob& job, const Program& program) {
  for (std::size_t i = job.begin; i < job.end; ++i) {
    const Step& step = program.steps[i];
    if (!takes_tensor(step)) continue;
    if (!are_equal(strides_of(program.asked->output_layout, step.in), job.to.step)) return false;
  }
  return true;
}

// Whether the preferred tile cannot store the results.
bool must_be_plain(const Demand& demand, const Program& program, const Choice& choice) {
  const Geometry& g = choice.geometry;
  const convt_dtype dtype = program.asked->dtype;
  const auto width = static_cast<int>(demand.width);
  const Config& config = choice.preferred.config;
  const bool programmed = demand.place == ChainPlace::program;
  const bool reduces = programmed && demand.channels != g.out_channels;
  return (config.stores(StoreTraits::lines) && (demand.to.dtype != dtype || demand.to.step.w != 1)) ||
         (config.swaps() && !has_near_ends(demand.to.step, choice.preferred.size)) ||
         (config.duplicates() && (g.out_channels % 8 != 0 || !are_groups(4, demand.to, width))) ||
         (programmed && !has_kernel(config, g.columns, g.format, g.element, true)) ||
         (reduces && !config.stores(StoreTraits::any_results));
}

}  // namespace

Demand demand_of(const ConvJob& job, const Geometry& g) {
  Demand demand{.pools = job.pool != nullptr, .channels = g.out_channels, .width = job.slab.box.size[2], .to = job.to};
  if (are_short(job, g.out_channels)) return demand;
  RegisterProgram made;
  demand.place = ChainPlace::strip;
  if (demand.pools || !make_program(job.chain, job.to, g.out_channels, g.bands == 1, made)) return demand;
  demand.place = ChainPlace::program;
  demand.mixes = has_mixing_steps(made);
  demand.channels = made.channels;
  return demand;
}

// The same from the program's steps.
Demand demand_of(const PlannedJob& job, const Program& program, const Geometry& g) {
  const std::span steps(program.steps);
  const auto before = steps.subspan(job.begin, job.chain_end() - job.begin);
  const auto behind = steps.subspan(job.behind(), job.end - job.behind());
  Demand demand{.place = place_of(before, g.bands == 1),
                .pools = job.pool != PlannedJob::no_pool,
                .channels = g.out_channels,
                .width = job.box[2],
                .to = job.to};
  const bool folds = sm90::are_short(behind) && demand.place == ChainPlace::epilogue;
  if ((demand.pools && !folds) || !has_tensors_like(job, program)) demand.place = ChainPlace::strip;
  if (demand.place != ChainPlace::program) return demand;
  demand.mixes = std::ranges::any_of(before, mixes_channels);
  demand.channels = static_cast<int>(before.back().out.channels);
  return demand;
}

bool runs_in_registers(const Demand& demand, const Program& program, const Choice& choice) {
  if (demand.place == ChainPlace::strip ||
      !has_near_results(demand.to.step, demand.pools ? Axes{1, 1, 1} : program.convolution.stride))
    return false;
  if (demand.place == ChainPlace::epilogue) return true;
  const Tile& tile = must_be_plain(demand, program, choice) ? choice.plain : choice.preferred;
  return tile.rejection.empty() && !(demand.mixes && tile.config.swaps());
}

const Tile& tile_for(const Demand& demand, const Program& program, const Choice& choice) {
  if (demand.pools) return choice.folded;
  if (!runs_in_registers(demand, program, choice)) return choice.strip;
  return must_be_plain(demand, program, choice) ? choice.plain : choice.preferred;
}

}  // namespace convt::core::cuda::sm90
