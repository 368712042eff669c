// SPDX-License-Identifier: Apache-2.0
// Execution of a schedule: constants and weights first, then, for some images at a time, pass by pass, every slab of
// the pass, stage by stage. All of it is launches on the caller's stream.
#include "cuda/schedule/executable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/chain/launchers.hpp"
#include "cuda/chain/span.hpp"
#include "cuda/chain/span_sizes.hpp"
#include "cuda/common/buffers.hpp"
#include "cuda/common/recording.hpp"
#include "cuda/schedule/change.hpp"

namespace convt::core::cuda::schedule {
namespace {

constexpr int least_span = 16;                   // pixels: with fewer, too many slots have several channels
constexpr int least_strip = 4, strips_each = 4;  // pixels; strips for each multiprocessor

// The addresses of a call.
struct Memory {
  enum Index : std::size_t { input, kernel, output, workspace, packed, operands };
  std::array<std::uintptr_t, most_addresses> of{};
  std::size_t count = operands;
};
std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

// T: the type that is computed in.
template <class T>
class GenericExecutable : public Executable {
 public:
  GenericExecutable(std::shared_ptr<const Schedule> schedule, int device) : s_(std::move(schedule)), device_(device) {}

  void pack_kernel(const void* kernel, void* stream) override;
  void execute(const Call& call) const override;

 private:
  struct Frame;   // one call
  struct Flight;  // some of its images, in one pass
  struct Spot;    // one slab of it

  static constexpr convt_dtype real = sizeof(T) == sizeof(double) ? CONVT_F64 : CONVT_F32;

  // Enqueues all work of a call.
  void enqueue(const Call& call, void* workspace, const void* packed, cudaStream_t stream) const;
  void pack(const void* kernel, void* changed, void* packed, cudaStream_t stream, bool early) const;
  void prepare(Frame& frame) const;
  void run_pass(Frame& frame, const Flight& flight) const;
  void copy_input(Frame& frame, const Interval& images) const;
  void run_stage(Frame& frame, const Spot& spot, const Stage& stage) const;
  void convolve(Frame& frame, const Spot& spot, const Stage& stage) const;
  void run_chain(const Frame& frame, const Spot& spot, const Stage& stage) const;
  void measure(const Frame& frame, const Flight& flight, const RegionSums& values, const Slab& slab) const;
  void finish(const Frame& frame, const Flight& flight) const;
  Chain bind_chain(const Frame& frame, const Spot& spot, std::size_t begin, std::size_t end) const;
  View source(const Frame& frame, const Spot& spot, const Stage& stage) const;
  View sink(const Frame& frame, const Spot& spot, const Stage& stage) const;
  View stored(const Frame& frame, const Flight& flight, const core::Shape& shape, const Slab& slab) const;
  NormaliseParams bind_norm(const Frame& frame, const Flight& flight, std::size_t step) const;
  void measure_stored(const Frame& frame, const Flight& flight, std::size_t step) const;

  std::shared_ptr<const Schedule> s_;
  int device_;
  DeviceMemory packed_;
  mutable Recordings recordings_;
};

template <class T>
struct GenericExecutable<T>::Frame {
  const Call& call;
  cudaStream_t stream = nullptr;
  std::byte* workspace = nullptr;
  const std::byte* packed = nullptr;
  bool just_prepared = false;  // the stream's last kernels are prepare()'s

  void* at(Place place) const { return workspace + place; }
};

template <class T>
struct GenericExecutable<T>::Flight {
  const PassPlan& plan;
  Interval images;
};

template <class T>
struct GenericExecutable<T>::Spot {
  const Flight& flight;
  std::size_t tile = 0;
  Interval images;

  Slab slab(std::size_t level) const { return {images, flight.plan.box(tile, level)}; }
};

template <class T>
void GenericExecutable<T>::pack_kernel(const void* kernel, void* stream_handle) {
  auto* const stream = static_cast<cudaStream_t>(stream_handle);
  const DeviceGuard guard(device_);
  if (is_capturing(stream))
    throw Error(CONVT_UNSUPPORTED, "packing a kernel waits for the device and cannot be captured: pack it before");
  const bool changes = s_->program->kernel_change.any();
  const Scratch changed(device_, stream, changes ? static_cast<std::size_t>(s_->program->kernel_count * s_->real) : 0);
  // A kernel that is packed again keeps its address, for graphs that read it. Nobody may read it now.
  DeviceMemory fresh;
  if (packed_.data() == nullptr)
    fresh = DeviceMemory(device_, s_->packed_size);
  else
    check(cudaDeviceSynchronize(), "waiting for executions that read the packed kernel");
  pack(kernel, changed.data(), fresh.data() == nullptr ? packed_.data() : fresh.data(), stream, false);
  check(cudaStreamSynchronize(stream), "packing the kernel");
  if (fresh.data() != nullptr) packed_ = std::move(fresh);
}

template <class T>
void GenericExecutable<T>::pack(const void* kernel, void* changed, void* packed, cudaStream_t stream,
                                bool early) const {
  const Program& program = *s_->program;
  const Convolution &c = program.convolution, &asked = program.asked->convolution;
  convt_dtype dtype = program.asked->dtype;
  const KernelChange& change = program.kernel_change;
  if (change.any()) {
    ChangeParams params;
    params.kernel = kernel;
    params.dtype = dtype;
    params.changed = changed;
    for (std::size_t a = 0; a < 3; ++a)
      params.axis[a] = {asked.kernel[a],         asked.dilation[a], asked.padding[a], change.window[a],
                        change.window_stride[a], c.kernel[a],       c.dilation[a],    c.padding[a]};
    const std::int64_t outs = asked.out_channels / asked.groups;
    params.summed = change.sums_channels ? outs : 1;
    params.pairs = asked.in_channels * outs / params.summed;
    params.factor = change.factor;
    launch_change<T>(params, stream);
    kernel = changed;
    dtype = real;
  }
  s_->convolver->pack(kernel, dtype, packed, stream, early && !change.any());
}

template <class T>
void GenericExecutable<T>::execute(const Call& call) const {
  const DeviceGuard guard(device_);
  auto* const stream = static_cast<cudaStream_t>(call.stream);
  const Scratch scratch(device_, stream, call.workspace == nullptr ? s_->workspace : 0);
  void* const workspace = call.workspace == nullptr ? scratch.data() : call.workspace;
  Memory memory;
  memory.of[Memory::input] = address(call.input);
  memory.of[Memory::kernel] = address(call.kernel);
  memory.of[Memory::output] = address(call.output);
  memory.of[Memory::workspace] = address(workspace);
  memory.of[Memory::packed] = address(packed_.data());
  if (call.operands.size() > most_addresses - Memory::operands) return enqueue(call, workspace, packed_.data(), stream);
  for (const void* operand : call.operands) memory.of[memory.count++] = address(operand);
  const Addresses addresses(memory.of.data(), memory.count);
  const auto recording = recordings_.find(addresses, [&](Addresses made_up) {
    std::vector<const void*> operands;
    for (const std::uintptr_t operand : made_up.subspan(Memory::operands)) operands.push_back(pointer_to(operand));
    Call like = call;
    like.input = pointer_to(made_up[Memory::input]);
    like.kernel = pointer_to(made_up[Memory::kernel]);
    like.output = pointer_to(made_up[Memory::output]);
    like.operands = operands;
    enqueue(like, pointer_to(made_up[Memory::workspace]), pointer_to(made_up[Memory::packed]), nullptr);
  });
  if (recording != nullptr)
    recording->enqueue(addresses, stream);
  else
    enqueue(call, workspace, packed_.data(), stream);
}

template <class T>
void GenericExecutable<T>::enqueue(const Call& call, void* workspace, const void* packed, cudaStream_t stream) const {
  Frame frame{call, stream, static_cast<std::byte*>(workspace), static_cast<const std::byte*>(packed)};
  prepare(frame);
  const std::int64_t batch = s_->program->asked->input.batch;
  for (std::int64_t first = 0; first < batch; first += s_->flight)
    for (const PassPlan& plan : s_->passes) run_pass(frame, {plan, {first, std::min(first + s_->flight, batch)}});
}

// Prepares what does not depend on the image: constants and packed weights.
template <class T>
void GenericExecutable<T>::prepare(Frame& frame) const {
  const Program& program = *s_->program;
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    if (const Affine* affine = std::get_if<Affine>(&program.steps[i].what)) {
      const Schedule::StepPlaces& of = s_->steps[i];
      evaluate_affine<T>(program, *affine, frame.call,
                         {static_cast<double*>(frame.at(of.lines)), frame.at(of.a), frame.at(of.b)});
      frame.just_prepared = true;
    }
  for (std::size_t i = 0; i < program.prologue.size(); ++i)
    if (const Affine* affine = std::get_if<Affine>(&program.prologue[i].what)) {
      const LinePlaces& of = s_->prologue[i];
      evaluate_affine<T>(program, *affine, frame.call,
                         {static_cast<double*>(frame.at(of.lines)), frame.at(of.a), frame.at(of.b)});
      frame.just_prepared = true;
    }
  if (frame.packed != nullptr) return;
  pack(frame.call.kernel, frame.at(s_->changed), frame.at(s_->packed), frame.stream, frame.just_prepared);
  frame.just_prepared = true;
  frame.packed = static_cast<const std::byte*>(frame.at(s_->packed));
}

template <class T>
void GenericExecutable<T>::run_pass(Frame& frame, const Flight& flight) const {
  const PassPlan& plan = flight.plan;
  if (plan.sums_slabs() && plan.pass.sink == Pass::Sink::moments) {
    // A slab may be the first slab of some of its regions and not of others. So all sums begin empty.
    const std::int64_t regions = region_count(s_->program->steps[plan.pass.end]) * flight.images.size();
    clear(frame.at(s_->steps[plan.pass.end].sums), static_cast<std::size_t>(regions) * sizeof(Moments), frame.stream);
    frame.just_prepared = false;
  }
  for (std::int64_t first = flight.images.begin; first < flight.images.end; first += plan.images)
    for (std::size_t tile = 0; tile < plan.tiles(); ++tile) {
      const Spot spot{flight, tile, {first, std::min(first + plan.images, flight.images.end)}};
      if (tile == 0 && s_->copies_input && plan.stages.front().convolves) copy_input(frame, spot.images);
      for (const Stage& stage : plan.stages) run_stage(frame, spot, stage);
      if (!plan.sums_slabs()) continue;
      RegionSums values;
      const Slab slab = spot.slab(plan.pass.end - plan.pass.begin);
      values.values = frame.at(s_->slab[static_cast<std::size_t>(plan.stages.back().to)]);
      values.image_step = plan.pass.out.channels * slab.box.pixels();
      values.first = plan.pass.sink == Pass::Sink::fold && tile == 0;
      measure(frame, flight, values, slab);
    }
  if (plan.pass.sink == Pass::Sink::output) return;
  if (plan.pass.stores) {
    const PassPlan& next = *(&plan + 1);
    if (!s_->normalises(next)) measure_stored(frame, flight, plan.pass.end);
    return;
  }
  finish(frame, flight);
}

// Binds a norm of stored values, except for its span.
template <class T>
NormaliseParams GenericExecutable<T>::bind_norm(const Frame& frame, const Flight& flight, std::size_t number) const {
  const Step& step = s_->program->steps[number];
  const Schedule::StepPlaces& of = s_->steps[number];
  NormaliseParams p;
  p.regions = region_count(step);
  p.elements = step.in.channels * volume(step.in.space) / p.regions;
  std::visit(
      [&]<class Op>(const Op& op) {
        if constexpr (std::derived_from<Op, ops::Norm>) p.eps = op.eps;
      },
      std::get<Op>(step.what));
  p.centre = frame.at(of.centre);
  p.scale = frame.at(of.scale);
  p.partials = frame.at(of.partials);
  p.counters = static_cast<int*>(frame.at(of.counters));
  p.span.images = static_cast<int>(flight.images.size());
  return p;
}

template <class T>
void GenericExecutable<T>::measure_stored(const Frame& frame, const Flight& flight, std::size_t number) const {
  const core::Shape& shape = s_->program->steps[number].in;
  const Slab all{flight.images, {{0, 0, 0}, shape.space}};
  const View view = stored(frame, flight, shape, all);
  if (volume(shape.space) > most_span_pixels) {
    RegionSums values;
    values.values = view.data;
    values.image_step = view.step.n;
    measure(frame, flight, values, all);
    finish(frame, flight);
    return;
  }
  NormaliseParams p = bind_norm(frame, flight, number);
  p.applies = false;
  p.span.from = {view.data, view.dtype, true, view.step.n, view.step.c};
  p.span.channels = static_cast<int>(shape.channels);
  p.span.pixels = static_cast<int>(volume(shape.space));
  launch_normalise<T>(p, s_->device.multiprocessors, frame.stream);
}

template <class T>
void GenericExecutable<T>::run_stage(Frame& frame, const Spot& spot, const Stage& stage) const {
  if (stage.convolves)
    convolve(frame, spot, stage);
  else
    run_chain(frame, spot, stage);
}

// Binds steps [begin, end), which work pixel by pixel.
template <class T>
Chain GenericExecutable<T>::bind_chain(const Frame& frame, const Spot& spot, std::size_t begin, std::size_t end) const {
  const Slab slab = spot.slab(end - spot.flight.plan.pass.begin);
  Chain chain;
  for (std::size_t i = begin; i < end; ++i) {
    const Schedule::StepPlaces& of = s_->steps[i];
    StepData data{frame.at(of.a),     frame.at(of.b),           frame.at(of.centre),
                  frame.at(of.scale), spot.flight.images.begin, frame.at(s_->slab[Schedule::conv_buffer]),
                  spot.slab(0).box};
    if (const Name* name = used_name(s_->program->steps[i]); name != nullptr && !s_->keeps_in_launch) {
      const std::size_t from = s_->program->kept_at(*name);
      data.kept = frame.at(s_->slab[static_cast<std::size_t>(s_->kept_buffer[from])]);
      data.kept_type = s_->kept_type(from);
      data.kept_box = spot.slab(from - spot.flight.plan.pass.begin).box;
    }
    chain.steps[chain.count++] = bind_step(*s_->program, i, frame.call, data, slab);
  }
  return chain;
}

template <class T>
void GenericExecutable<T>::copy_input(Frame& frame, const Interval& images) const {
  run_prologue<T>({*s_->program, frame.call, s_->prologue, frame.workspace, images, frame.at(s_->input)});
  frame.just_prepared = false;  // the convolution must wait for the copy
}

template <class T>
void GenericExecutable<T>::convolve(Frame& frame, const Spot& spot, const Stage& stage) const {
  const bool pools = stage.fused != Stage::no_pool;
  const Descriptor& asked = *s_->program->asked;
  ConvJob job;
  job.input = s_->copies_input ? frame.at(s_->input) : frame.call.input;
  job.input_step = strides_of(asked.input_layout, asked.input, s_->copies_input ? 0 : asked.input_within);
  job.packed = frame.packed;
  job.scratch = static_cast<std::byte*>(frame.at(s_->scratch));
  job.slab = spot.slab(0);
  if (s_->copies_input) job.slab.images = {0, spot.images.size()};
  job.to = sink(frame, spot, stage);
  job.stream = frame.stream;
  job.early = std::exchange(frame.just_prepared, false);
  job.chain = bind_chain(frame, spot, stage.begin, pools ? stage.fused : stage.end);
  if (pools) {
    job.pool = &s_->program->steps[stage.fused];
    job.behind = bind_chain(frame, spot, stage.fused + 1, stage.end);
  }
  s_->convolver->convolve(job);
}

template <class T>
View GenericExecutable<T>::stored(const Frame& frame, const Flight& flight, const core::Shape& shape,
                                  const Slab& slab) const {
  Strides step = strides_of(CONVT_CHANNELS_FIRST, shape, s_->store_in_output ? s_->program->asked->output_within : 0);
  const convt_dtype dtype = flight.plan.stored;
  if (s_->store_in_output) return view_of(frame.call.output, dtype, step, slab);
  step.n = s_->store_step;
  return view_of(frame.at(s_->store), dtype, step, slab, flight.images.begin);
}

// What a stage reads, from its result's first pixel on; for a pool, from its first input on.
template <class T>
View GenericExecutable<T>::source(const Frame& frame, const Spot& spot, const Stage& stage) const {
  const PassPlan& plan = spot.flight.plan;
  const std::size_t level = plan.level_before(stage);
  Slab slab = spot.slab(level);
  if (stage.pool == Stage::no_pool) slab.box = spot.slab(plan.level_behind(stage)).box;
  if (stage.from == Stage::outside) return stored(frame, spot.flight, plan.pass.in, slab);
  const Box held = spot.slab(level).box;
  for (std::size_t a = 0; a < 3; ++a) slab.box.origin[a] -= held.origin[a];
  Strides step = dense_strides(s_->channels_behind(plan, level), held);
  if (s_->begins_by_broadcasting(stage)) {
    const Step& first = s_->program->steps[stage.begin];
    step = broadcast(step, first.in, first.out);
  }
  return view_of(frame.at(s_->slab[static_cast<std::size_t>(stage.from)]), stage.reads, step, slab, slab.images.begin);
}

template <class T>
View GenericExecutable<T>::sink(const Frame& frame, const Spot& spot, const Stage& stage) const {
  const PassPlan& plan = spot.flight.plan;
  const std::size_t level = plan.level_behind(stage);
  const Slab slab = spot.slab(level);
  if (stage.to != Stage::outside)
    return {frame.at(s_->slab[static_cast<std::size_t>(stage.to)]),
            dense_strides(s_->channels_behind(plan, level), slab.box), stage.writes};
  if (plan.pass.stores) return stored(frame, spot.flight, plan.pass.out, slab);
  const Descriptor& asked = *s_->program->asked;
  return view_of(frame.call.output, asked.dtype, strides_of(asked.output_layout, asked.output, asked.output_within),
                 slab);
}

template <class T>
void GenericExecutable<T>::run_chain(const Frame& frame, const Spot& spot, const Stage& stage) const {
  const PassPlan& plan = spot.flight.plan;
  const Slab slab = spot.slab(plan.level_behind(stage));
  ChainParams p;
  p.from = source(frame, spot, stage);
  p.to = sink(frame, spot, stage);
  if (stage.pool != Stage::no_pool)
    p.pool = bind_pool(s_->program->steps[stage.pool], spot.slab(plan.level_before(stage)).box, slab.box);
  for (std::size_t a = 0; a < 3; ++a) p.size[a] = static_cast<int>(slab.box.size[a]);
  p.images = static_cast<int>(slab.images.size());
  const std::int64_t channels = s_->channels_of(plan, stage);
  p.channels = static_cast<int>(channels);
  p.strip_channels = stage.mixes ? p.channels : std::min(p.channels, 32);
  p.strip_pixels = s_->strip_pixels(stage, channels);
  p.chain = bind_chain(frame, spot, stage.begin, stage.end);
  if (&stage == &plan.stages.front() && s_->normalises(plan)) {
    NormaliseParams norm = bind_norm(frame, spot.flight, stage.begin);
    if (make_spans(p, norm.span)) return launch_normalise<T>(norm, s_->device.multiprocessors, frame.stream);
    measure_stored(frame, spot.flight, stage.begin);
  }
  if (SpanParams spans; make_spans(p, spans) && spans.pixels >= least_span) return launch_spans<T>(spans, frame.stream);
  if (PoolSpanParams pool; !stage.mixes && make_pool_spans(p, pool)) return launch_pool<T>(pool, frame.stream);
  std::int64_t most_blocks = std::int64_t{1} << 30;
  if (p.strip_pixels == 0) {
    p.strip_pixels = 1;
    p.strips = frame.at(s_->strips);
    most_blocks = s_->strip_blocks;
  }
  const std::int64_t pixels = slab.images.size() * slab.box.pixels();
  // If pixels are few, strips are short, so that every multiprocessor has some.
  while (p.strips == nullptr && p.strip_pixels > least_strip &&
         pixels < std::int64_t{p.strip_pixels} * s_->device.multiprocessors * strips_each)
    p.strip_pixels /= 2;
  const std::int64_t columns = ceil_div(pixels, std::int64_t{p.strip_pixels});
  const std::int64_t splits = (channels + p.strip_channels - 1) / p.strip_channels;
  launch_chain<T>(p, {blocks_for(columns * splits, 1, most_blocks), frame.stream, chain_shared<T>(p)});
}

template <class T>
void GenericExecutable<T>::measure(const Frame& frame, const Flight& flight, const RegionSums& values,
                                   const Slab& slab) const {
  const Pass& pass = flight.plan.pass;
  const Schedule::StepPlaces& of = s_->steps[pass.end];
  const bool moments = pass.sink == Pass::Sink::moments;
  RegionSums sums = values;
  sums.partials = frame.at(of.partials);
  sums.sums = frame.at(of.sums);
  sums.element = moments ? sizeof(Moments) : sizeof(double);
  sums.first_image = flight.images.begin;
  const RegionParams params = bind_regions(s_->program->steps[pass.end], sums, slab);
  if (moments)
    launch_moments<T>(params, frame.stream);
  else
    launch_folds<T>(params, flight.plan.stages.back().writes, frame.stream);
}

template <class T>
void GenericExecutable<T>::finish(const Frame& frame, const Flight& flight) const {
  const Pass& pass = flight.plan.pass;
  const Step& step = s_->program->steps[pass.end];
  const Schedule::StepPlaces& of = s_->steps[pass.end];
  FinishParams params = bind_finish(step, frame.at(of.sums), region_count(step) * flight.images.size());
  if (pass.sink == Pass::Sink::moments) {
    params.first = frame.at(of.centre);
    params.second = frame.at(of.scale);
    launch_statistics<T>(params, frame.stream);
  } else {
    params.first = frame.at(s_->store);
    params.step = s_->store_step;
    params.each = step.in.channels;
    launch_pool_results<T>(params, frame.stream);
  }
}

}  // namespace

std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule> schedule, int device) {
  if (schedule->doubles) return std::make_unique<GenericExecutable<double>>(std::move(schedule), device);
  return std::make_unique<GenericExecutable<float>>(std::move(schedule), device);
}

}  // namespace convt::core::cuda::schedule
