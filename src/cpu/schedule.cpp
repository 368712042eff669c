// SPDX-License-Identifier: Apache-2.0
#include "cpu/schedule.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace convt::core::cpu {
namespace {

constexpr Place line = 64;
// Of values kept between passes, so that they are still in a shared cache when the next pass comes; at least one image.
constexpr std::int64_t flight_bytes = 16 << 20;
// The size of an image that is one tile: a core's share of cache.
constexpr std::int64_t tile_bytes = 1 << 20;
constexpr double most_bytes = 1e15;
// Some 20 us: to wake a thread that sleeps takes 5 us of the caller on an idle machine, and 50 on a busy one.
constexpr double cycles_worth_a_thread = 50000;
// For each asked weight, where the kernel changes.
constexpr double change_cycles = 4;
constexpr const char* too_large_tile = "a tile's inputs, or the reach of its taps, pass 2^30 elements";

// Parts of a block of memory, one behind the other.
class Layout {
 public:
  Place add(double count, std::size_t element) {
    const double bytes = count * static_cast<double>(element);
    overflow_ |= bytes > most_bytes || static_cast<double>(size_) > most_bytes;
    const Place at = size_;
    if (!overflow_) size_ += (static_cast<std::size_t>(bytes) + line - 1) / line * line;
    return at;
  }
  Place add(std::int64_t count, std::size_t element) { return add(static_cast<double>(count), element); }
  std::size_t size() const { return size_; }
  bool overflow() const { return overflow_; }

 private:
  std::size_t size_ = 0;
  bool overflow_ = false;
};

std::int64_t image_count(const Shape& shape) { return capped_product({shape.channels, volume(shape.space)}); }

}  // namespace

template <class T>
bool image_is_a_tile(const Program& program) {
  if (needs_whole_image(program)) return true;
  const bool whole = std::any_of(program.steps.begin(), program.steps.end(),
                                 [](const Step& s) { return needs_space(s) || folds_space(s); });
  return whole && image_count(program.conv) <= tile_bytes / static_cast<std::int64_t>(sizeof(T));
}

template <class T>
Schedule<T>::Schedule(const Setup& setup)
    : program(setup.program), chain(&setup.isa->template chain<T>()), threads(setup.threads) {
  if (setup.sum != nullptr) {
    sums = std::make_unique<SpaceSums<T>>(*setup.sum, *setup.isa);
    rejection = sums->rejection();
    if (!rejection.empty()) return;
    cycles = sums->cycles();
  }
  if (program->kernel_change.any()) cycles += change_cycles * static_cast<double>(program->asked->kernel_count);
  plan_passes(setup);
  if (!rejection.empty()) return;
  plan_shared();
  if (!rejection.empty()) return;
  plan_slots();
}

template <class T>
void Schedule<T>::plan_passes(const Setup& setup) {
  const ConvKernels<T>& kernels = setup.isa->template conv<T>();
  const KernelShape shape{kernels.lanes, kernels.most_rows, kernels.most_vectors, sizeof(T)};
  const bool whole_image = image_is_a_tile<T>(*program);
  std::vector<Pass> all = passes_of(*program, setup.between, whole_image);
  rejection = too_many_steps(all);
  if (sums != nullptr) {
    if (all.size() > 1) rejection = "its channels do not fit into a tile";
    all.front().source = Pass::Source::store;
  }
  if (!rejection.empty()) return;
  for (const Pass& pass : all) {
    PassPlan<T> plan;
    plan.pass = pass;
    plan.cut = choose_cut(*program, pass, shape, threads, whole_image);
    plan.cut.cycles = std::max(plan.cut.cycles, 1.0);
    cycles += plan.cut.cycles;
    if (!(plan.cut.cycles < 1e300)) {
      rejection = too_large_tile;
      return;
    }
    std::array<std::vector<Interval>, 3> sources;
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t size = pass.out.space[a], each = plan.cut.tile[a];
      for (std::int64_t begin = 0; begin < size; begin += each) {
        plan.levels[a].push_back(walk_back(*program, pass, a, {begin, std::min(begin + each, size)}));
        sources[a].push_back(plan.levels[a].back().front());
      }
      plan.tiles *= static_cast<std::int64_t>(plan.levels[a].size());
    }
    const std::int64_t each = plan.cut.blocking.channels;
    plan.splits = ceil_div(pass.in.channels, each);
    if (pass.source == Pass::Source::convolution) {
      plan.convolver = std::make_unique<Convolver<T>>(program->convolution, plan.cut.blocking, kernels, sources);
      if (!plan.convolver->fits()) {
        rejection = too_large_tile;
        return;
      }
    }
    if (pass.sink == Pass::Sink::moments) {
      plan.regions = regions_of(program->steps[pass.end]);
      plan.regions_each = pass.out.channels / plan.regions.channels_each;
      for (int a = 0; a < plan.regions.axes; ++a) plan.regions_each *= plan.cut.tile[static_cast<std::size_t>(a)];
    }
    passes.push_back(std::move(plan));
  }
}

template <class T>
void Schedule<T>::plan_shared() {
  const Descriptor& asked = *program->asked;
  const bool same_type = asked.dtype == (sizeof(T) == sizeof(double) ? CONVT_F64 : CONVT_F32);
  const bool plain_output = same_type && asked.output_layout == CONVT_CHANNELS_FIRST;
  direct_output = plain_output && program->steps.empty() && sums == nullptr;
  std::int64_t stored = sums == nullptr ? 0 : program->conv.channels, largest = 0;
  store_in_output = plain_output && sums == nullptr;
  for (const PassPlan<T>& p : passes) {
    if (p.pass.sink == Pass::Sink::fold) {
      store_in_output = false;
      stored = std::max(stored, p.pass.out.channels);
    }
    if (p.pass.stores) {
      stored = std::max(stored, image_count(p.pass.out));
      largest = std::max(largest, image_count(p.pass.out));
      store_in_output &= p.pass.out == asked.output;
    }
    if (p.pass.source == Pass::Source::store)
      for (std::size_t i = p.pass.begin; i < p.pass.end; ++i) store_in_output &= !is_pool(program->steps[i]);
  }
  store_in_output &= stored != 0;
  flight = passes.size() == 1 ? asked.input.batch
                              : std::clamp<std::int64_t>(
                                    flight_bytes / capped_product({std::max<std::int64_t>(largest, 1), sizeof(T)}), 1,
                                    std::max<std::int64_t>(asked.input.batch, 1));
  if (sums != nullptr) flight = sums->images();

  // A thread costs room, and some microseconds to call it to work: it needs an item, and work worth that.
  std::int64_t parts = sums == nullptr ? 1 : sums->items();
  for (const PassPlan<T>& p : passes) {
    parts = std::max(parts, capped_product({ceil_div(flight, p.cut.blocking.images), p.splits, p.tiles}));
    if (p.convolver && !p.cut.blocking.late) parts = std::max(parts, p.convolver->pack_parts());
  }
  const double worth = std::clamp(cycles / cycles_worth_a_thread, 1.0, static_cast<double>(parts));
  threads = std::min(threads, static_cast<std::size_t>(worth));

  Layout layout;
  const auto add_constants = [&](const Step& step) {
    Constants of;
    if (std::holds_alternative<Affine>(step.what)) {
      of.a = layout.add(step.out.channels, sizeof(T));
      of.b = layout.add(step.out.channels, sizeof(T));
      of.wide = layout.add(2.0 * static_cast<double>(step.out.channels), sizeof(double));
    } else if (takes_channel_values(step)) {
      of.a = layout.add(step.in.channels, sizeof(T));
    } else if (needs_space(step) && step.operand_count == 2) {
      of.weight = layout.add(asked.operands[step.first_operand].count, sizeof(T));
      of.bias = layout.add(asked.operands[step.first_operand].count, sizeof(T));
    }
    return of;
  };
  for (const Step& step : program->steps) constants.push_back(add_constants(step));
  for (const Step& step : program->prologue) prologue_constants.push_back(add_constants(step));
  prologue_keeps_zero = program->prologue_keeps_zero();
  if (program->kernel_change.any()) changed_kernel = layout.add(program->kernel_count, sizeof(T));
  for (PassPlan<T>& p : passes) {
    const double tiles = static_cast<double>(p.tiles) * static_cast<double>(flight);
    if (p.convolver && !p.cut.blocking.late) p.packed = layout.add(p.convolver->packed_size(), sizeof(T));
    if (p.pass.sink == Pass::Sink::moments) {
      p.partials = layout.add(tiles * static_cast<double>(p.regions_each), sizeof(Moments));
      p.merged = layout.add(flight * p.regions.count, sizeof(Moments));
      p.centre = layout.add(flight * p.regions.count, sizeof(T));
      p.scale = layout.add(flight * p.regions.count, sizeof(T));
    }
    if (p.pass.sink == Pass::Sink::fold)
      p.partials = layout.add(tiles * static_cast<double>(p.pass.out.channels), sizeof(T));
  }
  if (sums != nullptr) shared_sums = layout.add(sums->shared_size(), sizeof(double));
  store_step = stored;
  if (stored != 0 && !store_in_output) store = layout.add(stored * flight, sizeof(T));
  slots = layout.size();
  if (layout.overflow()) rejection = "the workspace passes 10^15 bytes";
}

template <class T>
void Schedule<T>::plan_slots() {
  std::int64_t scratch_size = 0, tile_size = 0, conv_size = 0, regions = 0;
  std::array<std::int64_t, 2> pool_size{};
  std::vector<std::int64_t> kept_size(program->steps.size());
  bool overflow = false;
  for (const PassPlan<T>& p : passes) {
    if (p.convolver) scratch_size = std::max(scratch_size, p.convolver->scratch_size());
    Axes largest{};
    std::size_t next = 0;
    for (std::size_t level = 0; level <= p.pass.end - p.pass.begin; ++level) {
      const bool pooled_here = level > 0 && is_pool(program->steps[p.pass.begin + level - 1]);
      for (std::size_t a = 0; a < 3; ++a) {
        largest[a] = 0;
        for (const Levels& one : p.levels[a]) largest[a] = std::max(largest[a], one[level].size());
      }
      const Step* behind = level == 0 ? nullptr : &program->steps[p.pass.begin + level - 1];
      const std::int64_t all = behind == nullptr ? p.pass.in.channels : behind->out.channels;
      const double pixels =
          static_cast<double>(largest[0]) * static_cast<double>(largest[1]) * static_cast<double>(largest[2]);
      const std::int64_t channels = std::min(all, p.cut.blocking.channels);
      const auto images = static_cast<double>(p.cut.blocking.images);
      overflow |= pixels * static_cast<double>(channels) * images > most_bytes / sizeof(T);
      if (overflow) break;
      const std::int64_t count = tile_step<T>({{}, largest}) * channels;
      if (level == 0 && !direct_output) tile_size = std::max(tile_size, count * p.cut.blocking.images);
      if (level == 0 && program->keeps_conv()) conv_size = std::max(conv_size, count);
      if (pooled_here) {
        pool_size[next % 2] = std::max(pool_size[next % 2], count);
        ++next;
      }
      if (behind != nullptr && (kept_name(*behind) != nullptr || used_name(*behind) != nullptr)) {
        std::int64_t& size = kept_size[p.pass.begin + level - 1];
        size = std::max(size, count);
      }
      if (behind != nullptr && needs_space(*behind)) regions = std::max(regions, regions_of(*behind).count);
    }
  }
  Layout layout;
  scratch = layout.add(scratch_size, sizeof(T));
  if (sums != nullptr) sums_scratch = layout.add(sums->slot_size(), sizeof(double));
  tile = layout.add(tile_size, sizeof(T));
  for (std::size_t i = 0; i < 2; ++i) pooled[i] = layout.add(pool_size[i], sizeof(T));
  kept.clear();
  for (const std::int64_t size : kept_size) kept.push_back(layout.add(size, sizeof(T)));
  conv_copy = layout.add(conv_size, sizeof(T));
  conv_part = layout.add(conv_size, sizeof(T));
  moments = layout.add(regions, sizeof(Moments));
  centre = layout.add(regions, sizeof(T));
  scale = layout.add(regions, sizeof(T));
  // Slots end on odd cache lines, as rows do.
  slot_size = (layout.size() / line | 1) * line;
  workspace = slots + threads * slot_size;
  if (overflow || layout.overflow() || static_cast<double>(workspace) > most_bytes)
    rejection = "the workspace passes 10^15 bytes";
}

template <class T>
void PassPlan<T>::merge_tile(std::int64_t tile, const Moments* parts, Moments* sums) const {
  const Box part = this->box(tile_at(tile), pass.end - pass.begin);
  Axes size{1, 1, 1}, space{1, 1, 1}, origin{0, 0, 0};  // of the axes that tell regions apart
  for (std::size_t a = 0; a < static_cast<std::size_t>(regions.axes); ++a) {
    size[a] = part.size[a];
    space[a] = pass.out.space[a];
    origin[a] = part.origin[a];
  }
  for (std::int64_t c = 0; c < pass.out.channels / regions.channels_each; ++c)
    for (std::int64_t d = 0; d < size[0]; ++d)
      for (std::int64_t h = 0; h < size[1]; ++h)
        for (std::int64_t w = 0; w < size[2]; ++w) {
          Moments& sum = sums[((c * space[0] + origin[0] + d) * space[1] + origin[1] + h) * space[2] + origin[2] + w];
          sum = sum.count == 0 ? *parts : merge(sum, *parts);
          ++parts;
        }
}

template bool image_is_a_tile<float>(const Program&);
template bool image_is_a_tile<double>(const Program&);
template struct PassPlan<float>;
template struct PassPlan<double>;
template struct Schedule<float>;
template struct Schedule<double>;

}  // namespace convt::core::cpu
