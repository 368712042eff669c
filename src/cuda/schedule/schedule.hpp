// SPDX-License-Identifier: Apache-2.0
// A program cut into passes, slabs and launches, with the offset of every buffer in the workspace. Made once per plan.
//
// A pass without pools is one launch: the convolution with the chain after it. Three kinds of steps do not fit into
// this launch: pools, norms over more channels than a block has, and steps that use the convolution's own result. They
// make stages: launches that pass values of a slab on through buffers. Buffers are small enough to stay in the L2
// cache, unless small slabs would leave multiprocessors without work for longer than memory takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "cuda/chain/bind.hpp"
#include "cuda/chain/prologue.hpp"
#include "cuda/common/device.hpp"
#include "cuda/schedule/convolver.hpp"

namespace convt::core::cuda::schedule {

struct Setup {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Convolver> convolver;
  DeviceProperties device;
  Between between = Between::store;
  // Bytes of buffers between stages, and of values between passes: those that stay in the L2 cache, and the most.
  std::int64_t slab_bytes = 0, most_bytes = 0;
};

inline constexpr double launch_seconds = 3e-6;  // a launch and the gap before it

inline std::int64_t image_count(const core::Shape& shape) {
  return capped_product({shape.channels, volume(shape.space)});
}

using Place = std::size_t;  // an offset in the workspace, in bytes

// One launch.
struct Stage {
  static constexpr std::size_t no_pool = static_cast<std::size_t>(-1), no_step = no_pool;
  static constexpr int outside = -1;  // the source or sink of the pass

  bool convolves = false;
  std::size_t pool = no_pool;                         // the pool that it begins with
  std::size_t fused = no_pool;                        // the pool after the convolution, in its launch
  std::size_t begin = 0, end = 0;                     // steps that work pixel by pixel; one may be the fused pool
  std::size_t keeps = no_step;                        // the step after it, which keeps its result
  bool mixes = false;                                 // some step mixes channels
  int from = outside, to = outside;                   // slab buffers
  convt_dtype reads = CONVT_F32, writes = CONVT_F32;  // element types in these buffers

  bool is_empty() const { return !convolves && pool == no_pool && begin == end; }
};

struct PassPlan {
  Pass pass;
  std::vector<Stage> stages;
  Axes tile{1, 1, 1};                         // of the result of the pass
  std::array<std::vector<Levels>, 3> levels;  // by axis and tile
  std::int64_t images = 1;                    // of a slab
  convt_dtype stored = CONVT_F32;             // of the values that it reads from the store, or writes to it
  Prediction predicted;                       // for the images that go through all passes together

  bool sums_slabs() const { return pass.sink != Pass::Sink::output && !pass.stores; }
  std::size_t tiles() const { return levels[0].size() * levels[1].size() * levels[2].size(); }
  Box box(std::size_t tile, std::size_t level) const;  // level as in Levels
  Axes largest_box(std::size_t level) const;           // of all tiles
  bool pools() const { return stages.front().fused != Stage::no_pool; }
  std::size_t level_behind(const Stage& stage) const { return stage.end - pass.begin; }
  std::size_t level_before(const Stage& stage) const {
    return (stage.pool == Stage::no_pool ? stage.begin : stage.pool) - pass.begin;
  }
};

struct Schedule {
  explicit Schedule(const Setup& setup);

  // Buffers between stages: two that take turns, one for the convolution's own result, and one for each kept value.
  static constexpr int conv_buffer = 2, first_kept = 3;
  std::size_t buffers = first_kept;
  std::vector<int> kept_buffer;  // by step
  convt_dtype kept_type(std::size_t step) const;
  bool keeps_in_launch = false;  // the convolution's launch runs all steps, and keeps values in registers

  std::shared_ptr<const Program> program;
  std::shared_ptr<const Convolver> convolver;
  DeviceProperties device;
  bool doubles = false;
  std::int64_t real = sizeof(float);  // bytes of what is computed in
  std::vector<PassPlan> passes;
  std::int64_t flight = 1;       // images that go through all passes together
  bool store_in_output = false;  // values between passes are kept in the output
  std::int64_t store_step = 0;   // elements of one image in the store
  std::int64_t store_size = 0;   // bytes of the largest element in the store

  struct StepPlaces {
    Place lines = 0, a = 0, b = 0;  // of an Affine
    // A norm over space, or a pool over the whole image.
    Place sums = 0, partials = 0, centre = 0, scale = 0, counters = 0;
  };
  std::vector<StepPlaces> steps;
  // The convolution reads a dense copy of some images' inputs, on which the prologue has run.
  bool copies_input = false;
  std::vector<LinePlaces> prologue;  // by step of the prologue
  Place input = 0;
  Place packed = 0, scratch = 0, changed = 0, store = 0, strips = 0;
  std::vector<Place> slab;
  std::size_t packed_size = 0, workspace = 0;
  std::int64_t strip_blocks = 0;  // of strips in global memory

  std::string rejection;  // why this cannot run
  Prediction predicted;   // of a call that packs its kernel
  std::vector<std::string> explain() const;

  std::int64_t channels_behind(const PassPlan& pass, std::size_t level) const;
  bool begins_by_broadcasting(const Stage& stage) const;
  std::int64_t channels_of(const PassPlan& pass, const Stage& stage) const;  // that its first step sees
  int strip_pixels(const Stage& stage, std::int64_t channels) const;         // 0: the strip must be in global memory
  // Whether the pass begins with a norm that is measured and applied in one launch.
  bool normalises(const PassPlan& pass) const;

 private:
  double input_bytes() const;  // of the copy, of one image
  Prediction predict_prologue(std::int64_t images) const;
  Prediction predict_preparation() const;  // constants, and the packed kernel
  PlannedJob planned_job(const PassPlan& pass, const Stage& stage, std::int64_t images) const;
  void plan_stages(PassPlan& pass) const;
  void cut_levels(PassPlan& pass) const;
  bool needs_whole(const Pass& pass, std::size_t axis) const;
  void cut_slabs(PassPlan& pass, const Setup& setup);
  void choose_images(PassPlan& pass, std::int64_t most, const Setup& setup) const;
  // Bytes through memory, the store and slab buffers; the number of elements that a stage computes.
  struct Traffic {
    double memory = 0, store = 0, slab = 0, elements = 0;
  };
  Traffic traffic_of(const PassPlan& pass, const Stage& stage) const;
  double operand_bytes(const PassPlan& pass, const Stage& stage) const;  // of one image: what its steps read
  Prediction predict_stage(const PassPlan& pass, const Stage& stage, std::int64_t images, double store_rate) const;
  Prediction predict_pass(const PassPlan& pass, std::int64_t slab_bytes) const;
  std::vector<std::int64_t> buffer_sizes(const PassPlan& pass) const;  // bytes of one image
  double buffer_bytes(const PassPlan& pass) const;
  double plan_store();  // returns the bytes of one image that are kept between passes
  void choose_flight(double kept, const Setup& setup);
  void place_buffers();
};

}  // namespace convt::core::cuda::schedule
