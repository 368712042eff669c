// SPDX-License-Identifier: Apache-2.0
#include "cuda/schedule/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/chain/span.hpp"
#include "cuda/chain/span_sizes.hpp"
#include "plan/work.hpp"

namespace convt::core::cuda::schedule {
namespace {

constexpr double most_blocks = 1 << 30;
constexpr double most_bytes = 1e15;
constexpr std::int64_t strip_bytes = 40 << 10;       // of the 48 KiB of shared memory that any block may have
constexpr double most_in_flight = 1 << 30;           // images: kernels count them in 32 bits
constexpr std::int64_t all_strips_bytes = 64 << 20;  // of all strips in global memory

// Places parts of a block of memory one after the other.
class Layout {
 public:
  Place add(double count, double element) {
    constexpr Place line = 256;
    const Place at = size_;
    overflow_ |= count * element > most_bytes || static_cast<double>(size_) > most_bytes;
    if (!overflow_) size_ += (static_cast<Place>(count * element) + line - 1) / line * line;
    return at;
  }
  Place add(std::int64_t count, std::int64_t element) {
    return add(static_cast<double>(count), static_cast<double>(element));
  }
  Place size() const { return size_; }
  bool overflow() const { return overflow_; }

 private:
  Place size_ = 0;
  bool overflow_ = false;
};

bool has_large_windows(const Step& pool) {
  return std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Pool>) return volume(windows_of(op, pool.in).size) > most_small_window;
        return false;
      },
      std::get<Op>(pool.what));
}

// Whether a name comes from softmax over space, which is written out with kept values (plan/lower.cpp).
bool is_written_out(const Name* name) { return name != nullptr && name->text[0] >= '0' && name->text[0] <= '9'; }

// Whether a step leaves one channel, so that its result takes little memory.
bool leaves_one_channel(const Step& step) { return step.in.channels > 1 && step.out.channels == 1; }

}  // namespace

Box PassPlan::box(std::size_t tile, std::size_t level) const {
  const std::size_t h = levels[1].size(), w = levels[2].size();
  const std::array<std::size_t, 3> at{tile / (h * w), tile / w % h, tile % w};
  Box result;
  for (std::size_t a = 0; a < 3; ++a) {
    const Interval& one = levels[a][at[a]][level];
    result.origin[a] = one.begin;
    result.size[a] = one.size();
  }
  return result;
}

Axes PassPlan::largest_box(std::size_t level) const {
  Axes largest{0, 0, 0};
  for (std::size_t a = 0; a < 3; ++a)
    for (const Levels& one : levels[a]) largest[a] = std::max(largest[a], one[level].size());
  return largest;
}

Schedule::Schedule(const Setup& setup)
    : program(setup.program), convolver(setup.convolver), device(setup.device), rejection(convolver->rejection) {
  doubles = program->asked->dtype == CONVT_F64;
  real = doubles ? sizeof(double) : sizeof(float);
  if (!rejection.empty()) return;
  for (const Step& step : program->steps)
    kept_buffer.push_back(kept_name(step) == nullptr ? Stage::outside : static_cast<int>(buffers++));
  const Descriptor& asked = *program->asked;
  keeps_in_launch = convolver->keeps_values(0, program->steps.size());
  copies_input = !program->prologue.empty() || (asked.slices_input() && !convolver->reads_ranges());
  const std::vector<Pass> all = passes_of(*program, setup.between, false);
  rejection = too_many_steps(all);
  if (!rejection.empty()) return;
  for (const Pass& pass : all) {
    PassPlan plan;
    plan.pass = pass;
    plan_stages(plan);
    if (const Stage& first = plan.stages.front(); first.convolves && !plan.pools())
      rejection = convolver->why_not(first.begin, first.end);
    if (!rejection.empty()) return;
    passes.push_back(std::move(plan));
  }
  choose_flight(plan_store(), setup);
  place_buffers();
}

void Schedule::plan_stages(PassPlan& plan) const {
  const Pass& pass = plan.pass;
  const auto& steps = program->steps;
  const auto keeps = [&](std::size_t step) { return uses_conv(steps[step]); };
  bool keeps_conv = false;
  for (std::size_t i = pass.begin; i < pass.end; ++i) keeps_conv |= keeps(i);
  if (keeps_in_launch) keeps_conv = false;

  Stage stage;
  stage.begin = stage.end = pass.begin;
  stage.convolves = pass.source == Pass::Source::convolution;
  for (std::size_t i = pass.begin; i < pass.end; ++i) {
    if (kept_name(steps[i]) != nullptr && !keeps_in_launch) {
      if (stage.convolves && keeps_conv) {
        plan.stages.push_back(stage);
        stage = {};
        stage.begin = stage.end = i;
      }
      stage.keeps = i;
      plan.stages.push_back(stage);
      stage = {};
      stage.begin = stage.end = i + 1;
      continue;
    }
    const bool mixes = mixes_channels(steps[i]);
    const bool full = i - stage.begin == Chain::most_steps;
    // Kernels that fold large windows cannot mix channels.
    const bool behind_pool = mixes && stage.pool != Stage::no_pool && has_large_windows(steps[stage.pool]);
    const bool behind_conv =
        stage.convolves && (keeps_conv || (mixes && pass.in.channels > convolver->mixed_channels()));
    if (is_pool(steps[i]) && stage.convolves && !keeps_conv && stage.fused == Stage::no_pool) {
      if (const auto more = convolver->pools(stage.begin, i, pass.end)) {
        stage.fused = i;
        i += *more;
        stage.end = i + 1;
        continue;
      }
    }
    if (is_pool(steps[i]) || stage.fused != Stage::no_pool || full || behind_conv || behind_pool ||
        broadcasts(*program, steps[i])) {
      if (!stage.is_empty()) plan.stages.push_back(stage);
      stage = {};
      stage.begin = i;
      if (is_pool(steps[i])) {
        stage.pool = i;
        stage.begin = i + 1;
      }
    }
    stage.end = i + 1;
    stage.mixes |= mixes;
  }
  plan.stages.push_back(stage);

  int next = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    Stage& one = plan.stages[i];
    if (i > 0) one.from = plan.stages[i - 1].to;
    if (i + 1 == plan.stages.size() && !plan.sums_slabs()) break;
    one.to = one.keeps != Stage::no_step ? kept_buffer[one.keeps] : one.convolves && keeps_conv ? conv_buffer : next;
    next = 1 - next;
  }
  // Values that only pools read, and values that a chain keeps by name, have the tensors' type. Values of a softmax
  // over space, and values of one channel, which are small, have the type that is computed in.
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    Stage& one = plan.stages[i];
    one.writes = doubles ? CONVT_F64 : CONVT_F32;
    const bool last = i + 1 == plan.stages.size();
    const bool pooled = last ? plan.pass.sink == Pass::Sink::fold : plan.stages[i + 1].pool != Stage::no_pool;
    const std::size_t before = i > 0 ? plan.stages[i - 1].keeps : Stage::no_step;
    bool exact = before != Stage::no_step && is_written_out(kept_name(program->steps[before]));
    for (std::size_t s = one.begin; s < one.end; ++s) exact |= is_written_out(used_name(program->steps[s]));
    exact |= one.begin < one.end && leaves_one_channel(program->steps[one.end - 1]);
    if (pooled && !exact && one.to != Stage::outside && one.to < conv_buffer) one.writes = program->asked->dtype;
    if (one.keeps != Stage::no_step) one.writes = kept_type(one.keeps);
    one.reads = i > 0 ? plan.stages[i - 1].writes : one.writes;
  }
}

convt_dtype Schedule::kept_type(std::size_t step) const {
  const bool written_out = is_written_out(kept_name(program->steps[step]));
  return doubles ? CONVT_F64 : written_out ? CONVT_F32 : program->asked->dtype;
}

std::int64_t Schedule::channels_behind(const PassPlan& plan, std::size_t level) const {
  return level == 0 ? plan.pass.in.channels : program->steps[plan.pass.begin + level - 1].out.channels;
}

bool Schedule::normalises(const PassPlan& plan) const {
  const Pass& pass = plan.pass;
  const Stage& first = plan.stages.front();
  const bool begins = pass.source == Pass::Source::store && pass.begin < pass.end &&
                      needs_space(program->steps[pass.begin]) && first.pool == Stage::no_pool &&
                      first.begin == pass.begin && first.end > first.begin;
  // One box must be the whole image: a pool that drops pixels needs less.
  return begins && !first.mixes && plan.tiles() == 1 && plan.images >= flight &&
         plan.box(0, plan.level_behind(first)).size == pass.in.space && volume(pass.in.space) <= most_span_pixels;
}

bool Schedule::begins_by_broadcasting(const Stage& stage) const {
  return stage.pool == Stage::no_pool && stage.begin < stage.end && broadcasts(*program, program->steps[stage.begin]);
}

std::int64_t Schedule::channels_of(const PassPlan& plan, const Stage& stage) const {
  return begins_by_broadcasting(stage) ? program->steps[stage.begin].out.channels
                                       : channels_behind(plan, plan.level_before(stage));
}

void Schedule::cut_levels(PassPlan& plan) const {
  const Pass& pass = plan.pass;
  for (std::size_t a = 0; a < 3; ++a) {
    plan.levels[a].clear();
    for (std::int64_t begin = 0; begin < pass.out.space[a]; begin += plan.tile[a]) {
      Levels levels = walk_back(*program, pass, a, {begin, std::min(begin + plan.tile[a], pass.out.space[a])});
      for (std::size_t i = pass.begin; i < pass.end; ++i) {
        if (!uses_conv(program->steps[i])) continue;
        const Interval& used = levels[i - pass.begin];
        levels[0] = {std::min(levels[0].begin, used.begin), std::max(levels[0].end, used.end)};
      }
      plan.levels[a].push_back(std::move(levels));
    }
  }
}

// The bytes of each buffer for one image, with the largest boxes.
std::vector<std::int64_t> Schedule::buffer_sizes(const PassPlan& plan) const {
  std::vector<std::int64_t> sizes(buffers);
  for (const Stage& stage : plan.stages) {
    if (stage.to == Stage::outside) continue;
    const std::size_t level = plan.level_behind(stage);
    double bytes = static_cast<double>(channels_behind(plan, level)) * static_cast<double>(size_of(stage.writes));
    for (const std::int64_t size : plan.largest_box(level)) bytes *= static_cast<double>(size);
    auto& to = sizes[static_cast<std::size_t>(stage.to)];
    to = std::max(to, static_cast<std::int64_t>(std::min(bytes, most_bytes)));
  }
  return sizes;
}

double Schedule::buffer_bytes(const PassPlan& plan) const {
  double all = 0;
  for (const std::int64_t bytes : buffer_sizes(plan)) all += static_cast<double>(bytes);
  return all;
}

// Whether a step of the pass uses, along this axis, both a value and what was folded from it. Then every tile needs the
// whole axis, and each shorter tile would compute it again.
bool Schedule::needs_whole(const Pass& pass, std::size_t axis) const {
  for (std::size_t i = pass.begin; i < pass.end; ++i) {
    const Step& step = program->steps[i];
    const Name* name = used_name(step);
    if (name != nullptr && step.in.space[axis] != program->steps[program->kept_at(*name)].out.space[axis]) return true;
  }
  return false;
}

// Halves tiles until one image's buffers stay in the L2 cache, and takes the fastest of these tiles.
void Schedule::cut_slabs(PassPlan& plan, const Setup& setup) {
  const double most = static_cast<double>(most_inside);
  Axes best{0, 0, 0};
  std::int64_t best_images = 0;
  plan.tile = plan.pass.out.space;
  for (double least = 0;;) {
    cut_levels(plan);
    const double each = buffer_bytes(plan);
    Axes box{1, 1, 1};
    for (std::size_t level = 0; level <= plan.pass.end - plan.pass.begin; ++level) {
      const Axes here = plan.largest_box(level);
      for (std::size_t a = 0; a < 3; ++a) box[a] = std::max(box[a], here[a]);
    }
    double pixels = 1;
    for (const std::int64_t size : box) pixels *= static_cast<double>(size);
    std::size_t axis = 0;
    while (axis < 3 && (plan.tile[axis] == 1 || needs_whole(plan.pass, axis))) ++axis;
    const auto [blocks, per_pixel] = convolver->blocks(box);
    const double more = per_pixel * pixels;
    const bool possible = pixels <= most && blocks + more <= most_blocks, last = axis == 3;
    const bool any = best_images != 0;
    if (last && !possible && !any) rejection = "one output needs more than 2^29 pixels of the convolution at once";
    if ((possible && each <= static_cast<double>(setup.most_bytes)) || (last && !any)) {
      double images = std::min({static_cast<double>(flight), most / pixels, (most_blocks - blocks) / more});
      if (each > 0) images = std::min(images, static_cast<double>(setup.most_bytes) / each);
      if (copies_input && plan.stages.front().convolves)
        images = std::min(images, static_cast<double>(setup.most_bytes) / input_bytes());
      choose_images(plan, std::max<std::int64_t>(static_cast<std::int64_t>(images), 1), setup);
      if (!any || plan.predicted.seconds < least) {
        best = plan.tile;
        best_images = plan.images;
        least = plan.predicted.seconds;
      }
    }
    if (last || (possible && each <= static_cast<double>(setup.slab_bytes))) break;
    plan.tile[axis] = (plan.tile[axis] + 1) / 2;
  }
  plan.tile = best;
  plan.images = best_images;
  cut_levels(plan);
  plan.predicted = predict_pass(plan, setup.slab_bytes);
}

// Chooses the images of a slab, at most `most`; all slabs but the last are equal. The fastest wins, or the smallest of
// equals.
void Schedule::choose_images(PassPlan& plan, std::int64_t most, const Setup& setup) const {
  constexpr std::int64_t fine = 16, beyond = 4;  // the number of slabs grows by 1, later by a 16th, to 4 more than fit
  const double each = buffer_bytes(plan);
  const std::int64_t fewest = ceil_div(flight, most);
  std::int64_t last = fewest;
  if (each > 0) {
    const auto stay = static_cast<std::int64_t>(static_cast<double>(setup.slab_bytes) / each);
    last = std::min(std::max(ceil_div(flight, std::max<std::int64_t>(stay, 1)), fewest) + beyond, flight);
  }
  std::int64_t best = 0;
  Prediction least;
  for (std::int64_t slabs = fewest; slabs <= last; slabs += 1 + slabs / fine) {
    plan.images = ceil_div(flight, slabs);
    plan.predicted = predict_pass(plan, setup.slab_bytes);
    if (best != 0 && plan.predicted.seconds > least.seconds) continue;
    best = plan.images;
    least = plan.predicted;
  }
  plan.images = best;
  plan.predicted = least;
}

double Schedule::plan_store() {
  const Descriptor& asked = *program->asked;
  store_in_output = asked.output_layout == CONVT_CHANNELS_FIRST;
  double kept = 0;
  const convt_dtype computed = doubles ? CONVT_F64 : CONVT_F32;
  convt_dtype stored = asked.dtype;
  for (const PassPlan& p : passes)
    if (p.pass.stores && volume(p.pass.out.space) > most_span_pixels) stored = computed;
  for (PassPlan& p : passes) {
    p.stored = stored;
    if (p.pass.stores) store_size = std::max(store_size, static_cast<std::int64_t>(size_of(stored)));
    store_in_output &= stored == asked.dtype;
    if (p.pass.sink == Pass::Sink::fold) {
      stored = computed;  // in all later passes
      store_size = real;
      store_in_output = false;
      store_step = std::max(store_step, p.pass.out.channels);
    }
    if (p.pass.stores) {
      store_step = std::max(store_step, image_count(p.pass.out));
      store_in_output &= p.pass.out == asked.output;
    }
    if (p.pass.source == Pass::Source::store)
      for (std::size_t i = p.pass.begin; i < p.pass.end; ++i) store_in_output &= !is_pool(program->steps[i]);
    const Axes& measured = p.pass.out.space;
    if (p.pass.sink != Pass::Sink::output && *std::max_element(measured.begin(), measured.end()) >= std::int64_t{1}
                                                                                                        << 31)
      rejection = "a norm or an average over space has an axis of 2^31 or more";
    if (p.pass.sink != Pass::Sink::output)
      kept += static_cast<double>(region_count(program->steps[p.pass.end])) *
              (2.0 * sizeof(Moments) + 2.0 * sizeof(double) + sizeof(int));
  }
  store_in_output &= store_step != 0;
  kept += static_cast<double>(store_step) * static_cast<double>(store_size);
  return kept;
}

// Chooses how many images go through all passes together: as many as stay in the L2 cache between passes, or as many as
// memory allows, whichever is faster.
void Schedule::choose_flight(double kept, const Setup& setup) {
  const double batch = static_cast<double>(std::max<std::int64_t>(program->asked->input.batch, 1));
  std::vector<PassPlan> best;
  std::int64_t best_flight = 0;
  for (const std::int64_t bytes : {setup.slab_bytes, setup.most_bytes}) {
    // The output has room for the values of all images; their statistics are in the workspace.
    const bool free = store_in_output && bytes == setup.most_bytes;
    const double each = free ? kept - static_cast<double>(store_step) * static_cast<double>(store_size) : kept;
    const double most = std::min(batch, most_in_flight);
    flight = static_cast<std::int64_t>(
        passes.size() == 1 ? batch : std::clamp(static_cast<double>(bytes) / std::max(each, 1.0), 1.0, most));
    if (flight == best_flight) break;
    Prediction sum;
    for (PassPlan& plan : passes) {
      cut_slabs(plan, setup);
      sum += plan.predicted;
    }
    sum *= std::ceil(batch / static_cast<double>(flight));
    if (best_flight != 0 && sum.seconds >= predicted.seconds) continue;
    best = passes;
    best_flight = flight;
    predicted = sum;
  }
  passes = std::move(best);
  flight = best_flight;
  predicted += predict_preparation();
}

int Schedule::strip_pixels(const Stage& stage, std::int64_t channels) const {
  if (!stage.mixes) return 64;
  int pixels = 64;
  while (pixels > 0 && channels * (pixels + 1) * real > strip_bytes) pixels /= 2;
  return pixels;
}

void Schedule::place_buffers() {
  Layout layout;
  for (const Step& step : program->steps) {
    StepPlaces of;
    if (const Affine* affine = std::get_if<Affine>(&step.what)) {
      of.lines = layout.add(2 * affine->parts.front().stage.in.channels, sizeof(double));
      of.a = layout.add(step.out.channels, real);
      of.b = layout.add(step.out.channels, real);
    }
    steps.push_back(of);
  }
  for (const Step& step : program->prologue) {
    LinePlaces of;
    if (std::holds_alternative<Affine>(step.what)) {
      of.lines = layout.add(2 * step.out.channels, sizeof(double));
      of.a = layout.add(step.out.channels, real);
      of.b = layout.add(step.out.channels, real);
    }
    prologue.push_back(of);
  }
  if (copies_input) {
    std::int64_t images = 0;
    for (const PassPlan& p : passes)
      if (p.stages.front().convolves) images = std::max(images, p.images);
    input = layout.add(static_cast<double>(images), input_bytes());
  }
  const double weights = convolver->packed_bytes();
  packed_size = static_cast<std::size_t>(std::min(weights, most_bytes));
  packed = layout.add(weights, 1.0);
  scratch = layout.add(convolver->scratch_bytes(), 1.0);
  if (program->kernel_change.any()) changed = layout.add(program->kernel_count, real);
  std::vector<std::int64_t> sizes(buffers);
  std::int64_t strip_elements = 0;
  for (const PassPlan& p : passes) {
    const auto own = buffer_sizes(p);
    for (std::size_t i = 0; i < buffers; ++i) sizes[i] = std::max(sizes[i], capped_product({own[i], p.images}));
    for (const Stage& stage : p.stages) {
      const std::int64_t channels = channels_of(p, stage);
      if (!stage.convolves && strip_pixels(stage, channels) == 0) strip_elements = std::max(strip_elements, channels);
    }
    if (p.pass.sink == Pass::Sink::output) continue;
    const Step& step = program->steps[p.pass.end];
    StepPlaces& of = steps[p.pass.end];
    const std::int64_t regions = region_count(step) * flight;
    of.sums = layout.add(regions, sizeof(Moments));
    of.centre = layout.add(regions, real);
    of.scale = layout.add(regions, real);
    std::int64_t partials = 0;
    if (p.pass.stores) {
      partials = std::max(regions * chunks_of(volume(step.in.space) * step.in.channels / region_count(step), p.stored),
                          partial_count(step, {{0, flight}, {{0, 0, 0}, step.in.space}}));
      of.counters = layout.add(1 + regions, sizeof(int));
    } else {
      for (std::size_t tile = 0; tile < p.tiles(); ++tile)
        partials = std::max(partials, partial_count(step, {{0, p.images}, p.box(tile, p.pass.end - p.pass.begin)}));
    }
    of.partials = layout.add(partials, sizeof(Moments));
  }
  if (store_step != 0 && !store_in_output)
    store = layout.add(static_cast<double>(store_step) * static_cast<double>(flight), static_cast<double>(store_size));
  for (const std::int64_t bytes : sizes) slab.push_back(layout.add(bytes, 1));
  if (strip_elements != 0) {
    constexpr std::int64_t pitch = 2;  // one pixel and an odd step
    strip_blocks =
        std::clamp<std::int64_t>(all_strips_bytes / (strip_elements * pitch * real), 1, device.multiprocessors);
    strips = layout.add(strip_blocks * strip_elements * pitch, real);
  }
  workspace = layout.size();
  if (layout.overflow()) rejection = "the workspace passes 10^15 bytes";
}

}  // namespace convt::core::cuda::schedule
