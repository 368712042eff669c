// SPDX-License-Identifier: Apache-2.0
// Predicts the times of passes from the bytes that their launches move.
#include <algorithm>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "cuda/schedule/schedule.hpp"

namespace convt::core::cuda::schedule {

double Schedule::input_bytes() const {
  return static_cast<double>(image_count(program->asked->input)) * static_cast<double>(size_of(program->asked->dtype));
}

// The prologue runs once for all tiles of a slab's images. The convolution reads its result from memory.
double Schedule::prologue_seconds(std::int64_t images) const {
  constexpr double streamed = 0.66;
  if (!copies_input) return 0;
  return launch_seconds + 2 * static_cast<double>(images) * input_bytes() / (streamed * device.bandwidth);
}

// What the launch of a stage moves for a slab of one image, in bytes.
Schedule::Traffic Schedule::traffic_of(const PassPlan& plan, const Stage& stage) const {
  const Descriptor& asked = *program->asked;
  const auto batch = static_cast<double>(std::max<std::int64_t>(asked.input.batch, 1));
  const auto tiles = static_cast<double>(plan.tiles());
  const double element = static_cast<double>(size_of(asked.dtype)), held = static_cast<double>(size_of(plan.stored));
  const auto boxed = [&](std::size_t level) {
    return static_cast<double>(channels_behind(plan, level)) * static_cast<double>(volume(plan.largest_box(level)));
  };
  Traffic t;
  if (stage.convolves)
    t.memory += element * static_cast<double>(asked.input.count()) / (batch * tiles);
  else if (stage.from == Stage::outside)
    t.store += held * boxed(plan.level_before(stage));
  else
    t.slab += static_cast<double>(size_of(stage.reads)) * boxed(plan.level_before(stage));
  if (stage.to != Stage::outside)
    t.slab += static_cast<double>(size_of(stage.writes)) * boxed(plan.level_behind(stage));
  else if (plan.pass.stores)
    t.store += held * boxed(plan.level_behind(stage));
  else
    t.memory += element * static_cast<double>(asked.output.count()) / (batch * tiles);
  if (!stage.convolves) t.elements = boxed(stage.begin - plan.pass.begin);
  return t;
}

// The seconds of a pass, within a factor of two on an H200. Kernels reach a share of the memory's rate: `streamed`, or
// `cached` if values stay in the L2 cache. Each element that goes through a strip takes `strip_clocks`.
double Schedule::pass_seconds(const PassPlan& plan, std::int64_t slab_bytes) const {
  constexpr double streamed = 0.8, cached = 1.3, spilled = 1.25, strip_clocks = 2;
  const Descriptor& asked = *program->asked;
  const double memory = streamed * device.bandwidth, cache = cached * device.bandwidth;
  const auto stay = static_cast<double>(slab_bytes);
  const double stored =
      store_step == 0 ? 0 : static_cast<double>(image_count(plan.pass.out)) * static_cast<double>(size_of(plan.stored));
  const double store_rate = static_cast<double>(flight) * stored <= stay ? cache : memory;
  const double each = buffer_bytes(plan);
  const Axes box = plan.largest_box(0);
  const bool last_axis = asked.output_layout == CONVT_CHANNELS_LAST && asked.output.channels > 1;
  const auto slab_seconds = [&](std::int64_t count) {
    const auto images = static_cast<double>(count);
    // Values beyond the cache are read from memory. Most are written while the convolution computes.
    double sum = spilled * std::max(images * each - stay, 0.0) / memory;
    for (const Stage& stage : plan.stages) {
      const Traffic t = traffic_of(plan, stage);
      double seconds = images * (t.memory / memory + t.store / store_rate + t.slab / cache);
      if (stage.convolves) seconds = std::max(seconds, convolver->seconds(count, box, plan.pools()));
      const bool strips = !stage.convolves && (stage.mixes || (stage.to == Stage::outside && last_axis));
      if (strips) seconds += images * t.elements * strip_clocks / (device.multiprocessors * device.clock);
      sum += launch_seconds + seconds;
    }
    if (plan.sums_slabs()) sum += 2 * launch_seconds + images * each / cache;
    return sum;
  };
  const std::int64_t rest = flight % plan.images;
  const double whole = static_cast<double>(flight / plan.images) * slab_seconds(plan.images);
  double before = plan.stages.front().convolves
                      ? static_cast<double>(ceil_div(flight, plan.images)) * prologue_seconds(plan.images)
                      : 0;
  // Stored values are loaded again from the cache by the launch that normalises; others take a launch that joins sums.
  if (plan.pass.stores)
    before += static_cast<double>(flight) * stored / cache;
  else if (plan.pass.sink != Pass::Sink::output)
    before += launch_seconds;
  return static_cast<double>(plan.tiles()) * (rest == 0 ? whole : whole + slab_seconds(rest)) + before;
}

}  // namespace convt::core::cuda::schedule
