// SPDX-License-Identifier: Apache-2.0
// Execution of a schedule: constants and weights first, then, for some images at a time, pass by pass, every item of
// the pass. Threads share a pass's items; an item's result depends on nothing but its place.
#include "cpu/executable.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>

#include "base/settings.hpp"
#include "cpu/bind.hpp"
#include "cpu/convert.hpp"
#include "cpu/kept.hpp"
#include "cpu/threads.hpp"

namespace convt::core::cpu {
namespace {

// Outputs larger than this do not stay in a core's share of the last cache until somebody reads them.
constexpr std::int64_t streamed_bytes = 16 << 20;
bool streams(const Descriptor& asked) {
  return asked.output.count() * static_cast<std::int64_t>(size_of(asked.dtype)) > streamed_bytes;
}

// Centre and scale that a norm makes of its region's moments.
template <class T>
void finish(const Step& step, const Moments& m, T& centre, T& scale) {
  std::visit(
      [&]<class O>(const O& op) {
        if constexpr (std::derived_from<O, ops::Norm>) {
          centre = static_cast<T>(m.centre);
          scale = static_cast<T>(op.scale(m.total, m.count));
        }
      },
      std::get<Op>(step.what));
}

template <class T>
class CpuExecutable : public Executable {
 public:
  explicit CpuExecutable(std::shared_ptr<const Schedule<T>> schedule) : s_(std::move(schedule)) {}

  void pack_kernel(const void* kernel, void*) override {
    const std::size_t threads = std::min(num_threads(), s_->threads);
    std::vector<T> changed;
    convt_dtype dtype = s_->program->asked->dtype;
    if (s_->program->kernel_change.any()) {
      changed.resize(static_cast<std::size_t>(s_->program->kernel_count));
      change(kernel, changed.data(), threads);
      kernel = changed.data();
      dtype = real_dtype<T>;
    }
    std::vector<std::vector<T>> packed;
    bool finite = true;
    for (const PassPlan<T>& p : s_->passes) {
      packed.emplace_back(p.convolver ? static_cast<std::size_t>(p.convolver->packed_size()) : 0);
      if (p.convolver) finite &= pack(p, {kernel, dtype}, threads, packed.back().data());
    }
    std::vector<T> whole;
    if (!finite || s_->sums)
      visit_dtype(dtype, [&]<class E>(E*) {
        const E* const from = static_cast<const E*>(kernel);
        whole.resize(static_cast<std::size_t>(s_->program->kernel_count));
        std::transform(from, from + s_->program->kernel_count, whole.begin(), [](E x) { return to_real<T>(x); });
      });
    packed_ = std::move(packed);
    whole_ = std::move(whole);
  }

  void execute(const Call& call) const override;

 private:
  struct Frame;   // one call
  struct Flight;  // some of its images
  struct Work;    // one item

  using Kernel = typename Convolver<T>::Kernel;
  using PackSpace = typename Convolver<T>::PackSpace;
  // Whether all weights are finite.
  static bool pack(const PassPlan<T>& p, const Kernel& kernel, Crew crew, T* packed) {
    std::atomic<bool> finite{true};
    parallel_for(p.convolver->pack_parts(), crew, [&](std::int64_t part, std::size_t) {
      if (!p.convolver->pack(kernel, part, packed)) finite.store(false, std::memory_order_relaxed);
    });
    return finite.load(std::memory_order_relaxed);
  }
  void change(const void* asked_kernel, T* kernel, Crew crew) const;
  void prepare(Frame& frame) const;
  void sum_space(const Frame& frame, const Flight& flight) const;
  void run_item(const Frame& frame, const Flight& flight, std::int64_t item, std::size_t slot) const;
  void convolve(const Frame& frame, const Work& work) const;
  void run_image(const Frame& frame, const Work& work, std::int64_t index) const;
  Tile<T> expanded(const Frame& frame, const Work& work, std::size_t step, const Tile<T>& value) const;
  void measure_here(const Frame& frame, const Work& work, std::size_t step, const Tile<T>& value) const;
  void sink(const Frame& frame, const Work& work, std::int64_t index, const Tile<T>& value) const;
  void finish_pass(const Frame& frame, const Flight& flight) const;
  ImageView stored(const Frame& frame, const Shape& shape, std::int64_t image, std::int64_t index) const;
  ImageView output(const Frame& frame, std::int64_t image) const;

  std::shared_ptr<const Schedule<T>> s_;
  std::vector<std::vector<T>> packed_;  // by pass, once the kernel is packed
  std::vector<T> whole_;                // and the kernel itself, for sums and where some of it is not finite
};

template <class T>
struct CpuExecutable<T>::Frame {
  const Call& call;
  std::byte* workspace = nullptr;
  Crew crew;
  typename Convolver<T>::Kernel kernel{};  // for passes that pack late, and where it is not finite
  bool finite = true;                      // what is packed
  std::vector<const T*> packed{};          // by pass; null: its items pack
  std::vector<BoundStep<T>> prologue{};
  std::vector<BoundStep<T>> steps{};       // with what is the same for every image
  std::vector<BoundStep<T>> slot_steps{};  // per slot, with an image's own
  std::vector<PackSpace> slot_spaces{};    // per slot
  std::vector<ImageView> slot_inputs{};    // per slot
  std::size_t inputs_each = 1;

  template <class U>
  U* at(Place place) const {
    return reinterpret_cast<U*>(workspace + place);
  }
};

template <class T>
struct CpuExecutable<T>::Flight {
  const PassPlan<T>* pass = nullptr;
  std::size_t number = 0;  // of the pass
  Interval images;
};

template <class T>
struct CpuExecutable<T>::Work {
  const Flight& flight;
  const PassPlan<T>& plan;
  Interval images;
  std::int64_t split = 0, tile = 0;
  Axes tile_axes{};
  Interval channels;
  std::size_t slot = 0;
  Place base = 0;  // of the slot
  BoundStep<T>* steps = nullptr;
};

template <class T>
void CpuExecutable<T>::execute(const Call& call) const {
  Frame frame{.call = call,
              .workspace = static_cast<std::byte*>(call.workspace),
              .crew = crew_of(call.thread_pool, s_->threads)};
  prepare(frame);
  const std::int64_t batch = s_->program->asked->input.batch;
  for (std::int64_t first = 0; first < batch; first += s_->flight) {
    Flight flight;
    flight.images = {first, std::min(first + s_->flight, batch)};
    if (s_->sums) sum_space(frame, flight);
    for (const PassPlan<T>& p : s_->passes) {
      flight.pass = &p;
      flight.number = static_cast<std::size_t>(&p - s_->passes.data());
      const std::int64_t each = p.cut.blocking.images;
      const std::int64_t groups = ceil_div(flight.images.size(), each);
      parallel_for(groups * p.splits * p.tiles, frame.crew,
                   [&](std::int64_t item, std::size_t slot) { run_item(frame, flight, item, slot); });
      finish_pass(frame, flight);
    }
  }
}

template <class T>
void CpuExecutable<T>::change(const void* asked_kernel, T* kernel, Crew crew) const {
  constexpr std::int64_t weights_each = 1 << 15;  // some 10 us
  const Program& program = *s_->program;
  const std::int64_t pairs = changed_pairs(program);
  const std::int64_t weights = std::max<std::int64_t>(program.asked->kernel_count / pairs, 1);
  const std::int64_t each = std::max<std::int64_t>(weights_each / weights, 1);
  parallel_for(ceil_div(pairs, each), crew, [&](std::int64_t part, std::size_t) {
    change_kernel(program, asked_kernel, kernel, part * each, std::min((part + 1) * each, pairs));
  });
}

// Everything that allocates or does not depend on the image.
template <class T>
void CpuExecutable<T>::prepare(Frame& frame) const {
  const Program& program = *s_->program;
  const Binder<T> bind{program, frame.call, frame.workspace};
  for (std::size_t i = 0; i < program.prologue.size(); ++i)
    frame.prologue.push_back(bind(program.prologue[i], s_->prologue_constants[i]));
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    frame.steps.push_back(bind(program.steps[i], s_->constants[i]));
  for (const PassPlan<T>& p : s_->passes)
    frame.inputs_each = std::max(frame.inputs_each, static_cast<std::size_t>(p.cut.blocking.images));
  frame.slot_inputs.resize(frame.inputs_each * frame.crew.threads);
  for (std::size_t i = 0; i < frame.crew.threads; ++i)
    frame.slot_steps.insert(frame.slot_steps.end(), frame.steps.begin(), frame.steps.end());

  if (!packed_.empty()) {
    for (const auto& one : packed_) frame.packed.push_back(one.data());
    frame.finite = whole_.empty();
    frame.kernel = {whole_.data(), real_dtype<T>};
    return;
  }
  frame.kernel = {frame.call.kernel, program.asked->dtype};
  if (program.kernel_change.any()) {
    change(frame.call.kernel, frame.template at<T>(s_->changed_kernel), frame.crew);
    frame.kernel = {frame.template at<T>(s_->changed_kernel), real_dtype<T>};
  }
  for (const PassPlan<T>& p : s_->passes) {
    const bool now = p.convolver && !p.cut.blocking.late;
    frame.packed.push_back(now ? frame.template at<T>(p.packed) : nullptr);
    if (p.convolver && !now) {
      frame.slot_spaces.resize(frame.crew.threads);
      for (auto& space : frame.slot_spaces) p.convolver->make_room(space);
    }
    if (now) frame.finite &= pack(p, frame.kernel, frame.crew, frame.template at<T>(p.packed));
  }
}

// The convolution's result, one pixel of each image, to the store.
template <class T>
void CpuExecutable<T>::sum_space(const Frame& frame, const Flight& flight) const {
  s_->sums->run({.images = flight.images,
                 .input = frame.call.input,
                 .kernel = frame.kernel.data,
                 .kernel_dtype = frame.kernel.dtype,
                 .prologue = frame.prologue,
                 .crew = frame.crew,
                 .shared = frame.template at<double>(s_->shared_sums),
                 .slots = frame.workspace + s_->slots + s_->sums_scratch,
                 .slot_step = s_->slot_size,
                 .results = frame.template at<T>(s_->store),
                 .result_step = s_->store_step});
}

template <class T>
ImageView CpuExecutable<T>::stored(const Frame& frame, const Shape& shape, std::int64_t image,
                                   std::int64_t index) const {
  T* data = s_->store_in_output
                ? static_cast<T*>(frame.call.output) + image * s_->program->asked->output_pitches().image
                : frame.template at<T>(s_->store) + index * s_->store_step;
  return {data, real_dtype<T>, CONVT_CHANNELS_FIRST, shape.channels, shape.space};
}

template <class T>
ImageView CpuExecutable<T>::output(const Frame& frame, std::int64_t image) const {
  const Descriptor& asked = *s_->program->asked;
  const auto element = static_cast<std::int64_t>(size_of(asked.dtype));
  ImageView view{static_cast<char*>(frame.call.output) + image * asked.output_pitches().image * element, asked.dtype,
                 asked.output_layout, asked.output.channels, asked.output.space};
  view.stream = streams(asked);
  view.within = asked.output_within;
  return view;
}

template <class T>
void CpuExecutable<T>::run_item(const Frame& frame, const Flight& flight, std::int64_t item, std::size_t slot) const {
  const PassPlan<T>& p = *flight.pass;
  const std::int64_t each = p.cut.blocking.images, group = item / (p.splits * p.tiles);
  Work work{flight, p, {}, item / p.tiles % p.splits, item % p.tiles, {}, {}, slot, 0, nullptr};
  work.images = {flight.images.begin + group * each,
                 std::min(flight.images.begin + (group + 1) * each, flight.images.end)};
  work.tile_axes = p.tile_at(work.tile);
  work.channels = p.channels(work.split);
  work.base = s_->slots + slot * s_->slot_size;
  work.steps = const_cast<BoundStep<T>*>(frame.slot_steps.data()) + slot * frame.steps.size();
  if (p.convolver) convolve(frame, work);
  if (s_->direct_output) return;
  for (std::int64_t i = 0; i < work.images.size(); ++i) run_image(frame, work, i);
}

template <class T>
void CpuExecutable<T>::convolve(const Frame& frame, const Work& work) const {
  const Descriptor& asked = *s_->program->asked;
  const std::int64_t input_step = asked.input_pitches().image * static_cast<std::int64_t>(size_of(asked.dtype));
  auto* inputs = const_cast<ImageView*>(frame.slot_inputs.data()) + work.slot * frame.inputs_each;
  for (std::int64_t i = 0; i < work.images.size(); ++i) {
    // Inputs are only read.
    auto* data = const_cast<char*>(static_cast<const char*>(frame.call.input)) + (work.images.begin + i) * input_step;
    inputs[i] = {data, asked.dtype, asked.input_layout, asked.input.channels, asked.input.space};
    inputs[i].within = asked.input_within;
  }
  typename Convolver<T>::Item item;
  item.inputs = {inputs, static_cast<std::size_t>(work.images.size())};
  item.prologue = frame.prologue;
  item.prologue_keeps_zero = s_->prologue_keeps_zero;
  const Box box = work.plan.box(work.tile_axes, 0);
  for (std::size_t a = 0; a < 3; ++a) item.outputs[a] = {box.origin[a], box.origin[a] + box.size[a]};
  item.split = work.split;
  item.packed = frame.packed[work.flight.number];
  item.finite = frame.finite;
  item.kernel = frame.kernel;
  if (item.packed == nullptr) item.space = const_cast<PackSpace*>(frame.slot_spaces.data()) + work.slot;
  item.scratch = frame.template at<T>(work.base + s_->scratch);
  if (s_->direct_output) {
    const Axes& space = asked.output.space;
    const std::int64_t pixels = volume(space);
    item.to.data = static_cast<T*>(frame.call.output) + work.images.begin * asked.output_pitches().image +
                   work.channels.begin * pixels + (box.origin[0] * space[1] + box.origin[1]) * space[2] + box.origin[2];
    item.to.image_step = asked.output_pitches().image;
    item.to.channel_step = pixels;
    item.to.plane_step = space[1] * space[2];
    item.to.row_step = space[2];
    item.to.stream = streams(asked);
  } else {
    item.to.data = frame.template at<T>(work.base + s_->tile);
    item.to.channel_step = tile_step<T>(box);
    item.to.image_step = work.channels.size() * item.to.channel_step;
    item.to.plane_step = box.size[1] * box.size[2];
    item.to.row_step = box.size[2];
  }
  work.plan.convolver->run(item, *s_->chain);
}

template <class T>
void CpuExecutable<T>::run_image(const Frame& frame, const Work& work, std::int64_t index) const {
  const Program& program = *s_->program;
  const PassPlan<T>& p = work.plan;
  const std::int64_t image = work.images.begin + index, in_flight = image - work.flight.images.begin;
  Tile<T> value;
  value.box = p.box(work.tile_axes, 0);
  value.first_channel = work.channels.begin;
  value.channels = work.channels.size();
  value.channel_step = tile_step<T>(value.box);
  value.data = frame.template at<T>(work.base + s_->tile) + index * value.channels * value.channel_step;
  if (p.pass.source == Pass::Source::store)
    s_->chain->read(stored(frame, p.pass.in, image, in_flight),
                    {value.first_channel, value.channels, value.box, value.channel_step,
                     value.box.size[1] * value.box.size[2], value.box.size[2]},
                    value.data);
  Tile<T> conv = value;
  if (program.keeps_conv() && p.convolver) {
    conv.data = frame.template at<T>(work.base + s_->conv_copy);
    std::copy_n(value.data, value.channels * value.channel_step, conv.data);
  }

  std::size_t done = p.pass.begin, pools = 0;
  const auto run_until = [&](std::size_t end, const ImageView* to) {
    if (uses_conv(program, done, end) && (conv.box.size != value.box.size || conv.box.origin != value.box.origin))
      conv = crop(conv, value.box, frame.template at<T>(work.base + s_->conv_part));
    if (end > done) s_->chain->run({work.steps + done, end - done}, value, conv, to);
    if (end > done) value.channels = std::min(value.channels, program.steps[end - 1].out.channels);
    done = end;
  };
  for (std::size_t i = p.pass.begin; i < p.pass.end; ++i) {
    const Step& step = program.steps[i];
    BoundStep<T>& bound = work.steps[i];
    if (bound.tensor.channels != 0) {
      const std::size_t operand = step.first_operand;
      const std::size_t bytes = size_of(bound.tensor.dtype) *
                                static_cast<std::size_t>(step.in.channels * volume(step.in.space)) *
                                static_cast<std::size_t>(image);
      bound.tensor.data = const_cast<char*>(static_cast<const char*>(frame.call.operands[operand])) + bytes;
    }
    if (needs_space(step)) {
      // Its statistics come from an earlier pass or, where the tile is the whole image, from here.
      const auto from = std::find_if(s_->passes.begin(), s_->passes.end(), [&](const PassPlan<T>& other) {
        return other.pass.sink == Pass::Sink::moments && other.pass.end == i;
      });
      if (from == s_->passes.end()) {
        run_until(i, nullptr);
        measure_here(frame, work, i, value);
      } else {
        bound.centre = frame.template at<T>(from->centre) + in_flight * bound.regions.count;
        bound.scale = frame.template at<T>(from->scale) + in_flight * bound.regions.count;
      }
    }
    if (kept_name(step) != nullptr) {
      run_until(i, nullptr);
      bound.kept = value;
      bound.kept.data = frame.template at<T>(work.base + s_->kept[i]);
      std::copy_n(value.data, value.channels * value.channel_step, bound.kept.data);
      done = i + 1;
    }
    if (const Name* name = used_name(step)) {
      const std::size_t from = program.kept_at(*name);
      bound.kept = work.steps[from].kept;
      if (broadcasts(program, step)) {
        run_until(i, nullptr);
        value = expanded(frame, work, i, value);
        done = i + 1;
      } else if (const Box box = p.box(work.tile_axes, i - p.pass.begin);
                 bound.kept.box.size != box.size || bound.kept.box.origin != box.origin) {
        bound.kept = crop(bound.kept, box, frame.template at<T>(work.base + s_->kept[i]));
      }
    }
    if (is_pool(step)) {
      run_until(i, nullptr);
      Tile<T> next = value;
      next.box = p.box(work.tile_axes, i + 1 - p.pass.begin);
      next.channel_step = tile_step<T>(next.box);
      next.data = frame.template at<T>(work.base + s_->pooled[pools++ % 2]);
      s_->chain->pool(step, value, next);
      value = next;
      done = i + 1;
    }
  }
  const ImageView to = output(frame, image);
  const bool written = p.pass.sink == Pass::Sink::output && done < p.pass.end;
  run_until(p.pass.end, written ? &to : nullptr);
  if (!written) sink(frame, work, index, value);
}

// What a step does with a kept value where one of both is broadcast.
template <class T>
Tile<T> CpuExecutable<T>::expanded(const Frame& frame, const Work& work, std::size_t step, const Tile<T>& value) const {
  const Program& program = *s_->program;
  const Step& one = program.steps[step];
  const Shape& kept_shape = program.steps[program.kept_at(*used_name(one))].out;
  const Tile<T>& kept = work.steps[step].kept;
  Tile<T> to = value;
  to.box = work.plan.box(work.tile_axes, step + 1 - work.plan.pass.begin);
  to.channels = std::max(value.channels, kept.channels);
  to.channel_step = tile_step<T>(to.box);
  to.data = frame.template at<T>(work.base + s_->kept[step]);
  s_->chain->expand(one, broadcast(value, one.in, to.box), broadcast(kept, kept_shape, to.box), to);
  return to;
}

// Statistics of a norm over space whose regions all lie in this tile.
template <class T>
void CpuExecutable<T>::measure_here(const Frame& frame, const Work& work, std::size_t step,
                                    const Tile<T>& value) const {
  BoundStep<T>& bound = work.steps[step];
  auto* moments = frame.template at<Moments>(work.base + s_->moments);
  T* centre = frame.template at<T>(work.base + s_->centre);
  T* scale = frame.template at<T>(work.base + s_->scale);
  s_->chain->measure(bound, value, moments);
  const std::int64_t first = value.first_channel / bound.regions.channels_each * bound.regions.outer;
  const std::int64_t count = value.channels / bound.regions.channels_each * bound.regions.outer;
  for (std::int64_t r = 0; r < count; ++r) finish(*bound.step, moments[r], centre[first + r], scale[first + r]);
  bound.centre = centre;
  bound.scale = scale;
}

template <class T>
void CpuExecutable<T>::sink(const Frame& frame, const Work& work, std::int64_t index, const Tile<T>& value) const {
  const PassPlan<T>& p = work.plan;
  const std::int64_t image = work.images.begin + index, in_flight = image - work.flight.images.begin;
  const std::int64_t place = in_flight * p.tiles + work.tile;
  switch (p.pass.sink) {
    case Pass::Sink::output:
      s_->chain->write(value, output(frame, image));
      break;
    case Pass::Sink::moments: {
      std::int64_t before = value.first_channel / p.regions.channels_each;  // regions of channels before the tile's
      for (int a = 0; a < p.regions.axes; ++a) before *= value.box.size[static_cast<std::size_t>(a)];
      s_->chain->measure(work.steps[p.pass.end], value,
                         frame.template at<Moments>(p.partials) + place * p.regions_each + before);
      if (p.pass.stores) s_->chain->write(value, stored(frame, p.pass.out, image, in_flight));
      break;
    }
    case Pass::Sink::fold:
      s_->chain->fold(*frame.steps[p.pass.end].step, value,
                      frame.template at<T>(p.partials) + place * p.pass.out.channels + value.first_channel);
      break;
  }
}

// Joins what the tiles left, in the order of tiles.
template <class T>
void CpuExecutable<T>::finish_pass(const Frame& frame, const Flight& flight) const {
  const PassPlan<T>& p = *flight.pass;
  if (p.pass.sink == Pass::Sink::output) return;
  const Step& step = s_->program->steps[p.pass.end];
  parallel_for(flight.images.size(), frame.crew, [&](std::int64_t i, std::size_t) {
    if (p.pass.sink == Pass::Sink::fold) {
      const std::int64_t channels = p.pass.out.channels;
      T* folded = frame.template at<T>(p.partials) + i * p.tiles * channels;
      for (std::int64_t t = 1; t < p.tiles; ++t) s_->chain->join(step, folded + t * channels, folded, channels);
      s_->chain->result(step, folded, channels, static_cast<double>(volume(p.pass.out.space)));
      std::copy_n(folded, channels, frame.template at<T>(s_->store) + i * s_->store_step);
      return;
    }
    const Regions& regions = p.regions;
    auto* sums = frame.template at<Moments>(p.merged) + i * regions.count;
    std::fill_n(sums, regions.count, Moments{});
    for (std::int64_t t = 0; t < p.tiles; ++t)
      p.merge_tile(t, frame.template at<Moments>(p.partials) + (i * p.tiles + t) * p.regions_each, sums);
    for (std::int64_t r = 0; r < regions.count; ++r) {
      const std::int64_t at = i * regions.count + r;
      finish(step, sums[r], frame.template at<T>(p.centre)[at], frame.template at<T>(p.scale)[at]);
    }
  });
}

}  // namespace

template <class T>
std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule<T>> schedule) {
  return std::make_unique<CpuExecutable<T>>(std::move(schedule));
}
template std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule<float>>);
template std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule<double>>);

}  // namespace convt::core::cpu
