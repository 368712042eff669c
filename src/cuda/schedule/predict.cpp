// SPDX-License-Identifier: Apache-2.0
// Predicts the times of passes from the bytes that their launches move.
#include <algorithm>
#include <span>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "cuda/schedule/chain_cost.hpp"
#include "cuda/schedule/schedule.hpp"

namespace convt::core::cuda::schedule {

namespace {

constexpr double streamed = 0.8, cached = 1.3;  // shares of the memory's rate: of memory, of the L2 cache

}  // namespace

double Schedule::input_bytes() const {
  return static_cast<double>(image_count(program->asked->input)) * static_cast<double>(size_of(program->asked->dtype));
}

// The prologue runs once for all tiles of a slab's images. The convolution reads its result from memory.
Prediction Schedule::predict_prologue(std::int64_t images) const {
  constexpr double rate = 0.66;  // of the memory's
  Prediction p;
  if (!copies_input) return p;
  p.add(Prediction::launches, launch_seconds);
  p.add(Prediction::memory, 2 * static_cast<double>(images) * input_bytes() / (rate * device.bandwidth));
  return p;
}

// Launches that evaluate constants, change the kernel and pack it, and the kernel's bytes.
Prediction Schedule::predict_preparation() const {
  const auto is_affine = [](const Step& step) { return std::holds_alternative<Affine>(step.what); };
  const auto constants =
      std::ranges::count_if(program->steps, is_affine) + std::ranges::count_if(program->prologue, is_affine);
  const bool changes = program->kernel_change.any();
  const double asked =
      static_cast<double>(program->asked->kernel_count) * static_cast<double>(size_of(program->asked->dtype));
  const double changed = changes ? 2.0 * static_cast<double>(program->kernel_count * real) : 0;  // written and read
  Prediction p;
  p.add(Prediction::launches, launch_seconds * static_cast<double>(constants + (changes ? 2 : 1)));
  p.add(Prediction::memory, (asked + changed + convolver->packed_bytes()) / (streamed * device.bandwidth));
  return p;
}

// Bytes of whole tensors that the steps of a stage read, for one image and tile.
double Schedule::operand_bytes(const PassPlan& plan, const Stage& stage) const {
  const Descriptor& asked = *program->asked;
  double bytes = 0;
  for (std::size_t i = stage.begin; i < stage.end; ++i)
    for (std::size_t o = 0; o < program->steps[i].operand_count; ++o) {
      const Operand& operand = asked.operands[program->steps[i].first_operand + o];
      if (operand.spec.kind == OperandSpec::whole)
        bytes += static_cast<double>(operand.count) * static_cast<double>(size_of(operand.dtype));
    }
  const auto batch = static_cast<double>(std::max<std::int64_t>(asked.input.batch, 1));
  return bytes / (batch * static_cast<double>(plan.tiles()));
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
  for (std::size_t i = stage.begin; i < stage.end && !stage.convolves; ++i) {
    const Step& step = program->steps[i];
    if (uses_conv(step)) t.slab += static_cast<double>(real) * boxed(0);
    if (const Name* name = used_name(step)) {
      const std::size_t from = program->kept_at(*name);
      t.slab += static_cast<double>(size_of(kept_type(from))) * boxed(from - plan.pass.begin);
    }
  }
  if (!stage.convolves) t.elements = boxed(stage.begin - plan.pass.begin);
  return t;
}

// A job of the convolver, with the view of its results: a slab buffer, the store or the output.
PlannedJob Schedule::planned_job(const PassPlan& plan, const Stage& stage, std::int64_t images) const {
  const Descriptor& asked = *program->asked;
  PlannedJob job;
  job.images = images;
  job.box = plan.largest_box(0);
  job.begin = stage.begin;
  job.end = stage.end;
  job.pool = stage.fused;
  const std::size_t level = plan.level_behind(stage);
  if (stage.to != Stage::outside)
    job.to = {nullptr, dense_strides(channels_behind(plan, level), {{0, 0, 0}, plan.largest_box(level)}), stage.writes};
  else if (plan.pass.stores)
    job.to = {nullptr, strides_of(CONVT_CHANNELS_FIRST, plan.pass.out, store_in_output ? asked.output_within : 0),
              plan.stored};
  else
    job.to = {nullptr, strides_of(asked.output_layout, asked.output, asked.output_within), asked.dtype};
  return job;
}

// store_rate: bytes per second of values between passes.
Prediction Schedule::predict_stage(const PassPlan& plan, const Stage& stage, std::int64_t count,
                                   double store_rate) const {
  // What the convolution and the memory's traffic slow each other down, as a part of the shorter one.
  constexpr double slowed = 0.2;
  const double memory = streamed * device.bandwidth, cache = cached * device.bandwidth;
  const auto images = static_cast<double>(count);
  const Traffic t = traffic_of(plan, stage);
  const double moved = images * (t.memory / memory + t.store / store_rate + t.slab / cache);
  const double operands = images * operand_bytes(plan, stage) / memory;
  Prediction p;
  if (stage.convolves) {
    p = convolver->predict(planned_job(plan, stage, count));
    p.of[Prediction::memory] += moved;
    p.seconds = std::max(p.seconds, moved) + slowed * std::min(p.seconds, moved);
    p.add(Prediction::memory, operands);  // the epilogue waits for them
  } else {
    const Descriptor& asked = *program->asked;
    const bool last_axis = asked.output_layout == CONVT_CHANNELS_LAST && asked.output.channels > 1;
    const bool strips = stage.mixes || (stage.to == Stage::outside && last_axis);
    const auto steps = std::span(program->steps).subspan(stage.begin, stage.end - stage.begin);
    const double clocks = images * t.elements * (strips ? strip_clocks(steps) : value_clocks(steps));
    p.of[Prediction::memory] = moved + operands;
    p.of[Prediction::chain] = clocks / (device.multiprocessors * device.clock);
    const auto [shorter, longer] = std::minmax(p.of[Prediction::memory], p.of[Prediction::chain]);
    p.seconds = strips ? shorter + longer : longer;
  }
  p.add(Prediction::launches, launch_seconds);
  return p;
}

// A pass, within a factor of two on an H200.
Prediction Schedule::predict_pass(const PassPlan& plan, std::int64_t slab_bytes) const {
  constexpr double spilled = 1.25;
  const double memory = streamed * device.bandwidth, cache = cached * device.bandwidth;
  const auto stay = static_cast<double>(slab_bytes);
  const double stored =
      store_step == 0 ? 0 : static_cast<double>(image_count(plan.pass.out)) * static_cast<double>(size_of(plan.stored));
  const double store_rate = static_cast<double>(flight) * stored <= stay ? cache : memory;
  const double each = buffer_bytes(plan);
  const auto predict_slab = [&](std::int64_t count) {
    const auto images = static_cast<double>(count);
    Prediction p;
    // Values beyond the cache are read from memory. Most are written while the convolution computes.
    p.add(Prediction::memory, spilled * std::max(images * each - stay, 0.0) / memory);
    for (const Stage& stage : plan.stages) p += predict_stage(plan, stage, count, store_rate);
    if (plan.sums_slabs()) {
      p.add(Prediction::launches, 2 * launch_seconds);
      p.add(Prediction::memory, images * each / cache);
    }
    return p;
  };
  Prediction p = static_cast<double>(flight / plan.images) * predict_slab(plan.images);
  if (const std::int64_t rest = flight % plan.images; rest != 0) p += predict_slab(rest);
  p *= static_cast<double>(plan.tiles());
  if (plan.stages.front().convolves)
    p += static_cast<double>(ceil_div(flight, plan.images)) * predict_prologue(plan.images);
  // Stored values are loaded again from the cache by the launch that normalises; others take a launch that joins sums.
  if (plan.pass.stores)
    p.add(Prediction::memory, static_cast<double>(flight) * stored / cache);
  else if (plan.pass.sink != Pass::Sink::output)
    p.add(Prediction::launches, launch_seconds);
  return p;
}

}  // namespace convt::core::cuda::schedule
