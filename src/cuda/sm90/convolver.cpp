// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/convolver.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <utility>

#include "base/division.hpp"
#include "base/error.hpp"
#include "cuda/sm90/short_chain.hpp"
#include "cuda/sm90/tables.hpp"
#include "plan/algebra.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// Whether writers can count what is between a tile's first and last output in 32 bits.
bool has_near_ends(const Strides& to, const std::array<int, 3>& size) {
  const std::int64_t steps[] = {to.d, to.h, to.w};
  std::int64_t left = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t a = 0; a < 3; ++a) {
    if (size[a] > 1 && steps[a] > left / (size[a] - 1)) return false;
    left -= (size[a] - 1) * steps[a];
  }
  return true;
}

// Rows of so many elements come in groups of 2 or 4, and each group begins at a multiple of its size in memory.
bool are_groups(int size, const View& to, int width) {
  const Strides& s = to.step;
  const std::size_t element = to.dtype == CONVT_F32 ? 4 : 2;
  return width % size == 0 && s.w == 1 && s.n % size == 0 && s.c % size == 0 && s.d % size == 0 && s.h % size == 0 &&
         reinterpret_cast<std::uintptr_t>(to.data) % (static_cast<std::size_t>(size) * element) == 0;
}
bool are_pairs(const View& to, int width) { return are_groups(2, to, width); }
// Two elements at a time: outputs of a row and its phases come in pairs, rows begin at even elements, and so does the
// tensor; channels come in whole groups.
bool is_paired(const View& to, const ConvAxis& axis, int channels) {
  return axis.stride % 2 == 0 && channels % 8 == 0 && are_pairs(to, axis.size);
}

// Folded results of 2 bytes, 16 bytes at a time: those of 8 positions are neighbours, all of them or none are there,
// and they begin at addresses that divide by 16; bands are whole.
bool has_vectors(const View& to, const ConvAxis& axis, const Geometry& g) {
  const Strides& s = to.step;
  return g.element == 2 && s.w == 1 && axis.size % (8 * axis.stride) == 0 && g.out_channels % g.columns == 0 &&
         s.n % 8 == 0 && s.c % 8 == 0 && s.d % 8 == 0 && s.h % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(to.data) % 16 == 0;
}

// A fold that Way::pooled knows.
bool is_pooled(const ConvParams& p, int columns) {
  return can_pool(columns) && (p.fold.kind == Fold::sum_of_bare_norm || p.fold.kind == Fold::max_of_sums) &&
         (p.route == Route::two_steps_stay || p.route == Route::four_steps_stay);
}

class TiledConvolver : public HopperConvolver {
 public:
  TiledConvolver(std::shared_ptr<const Program> program, const DeviceProperties& device, const Choice& choice)
      : program_(std::move(program)), device_(device), choice_(choice), g_(choice_.geometry) {
    only_marches_ = choice_.quick.way == Way::march && is_short();
  }

  std::int64_t mixed_channels() const override { return g_.columns; }
  std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const override;
  Blocks blocks(const Axes&) const override { return {1.0 * g_.bands, 1.0 * g_.bands}; }
  double seconds(std::int64_t images, const Axes& box, bool pools) const override {
    return seconds_of(g_, pools ? choice_.folded : choice_.quick, images, box, device_);
  }
  std::string explain(bool pools) const override;
  double packed_bytes() const override {
    const bool both = choice_.quick.way == Way::march && !only_marches_;
    return (static_cast<double>(header()) + weight_bytes()) * (both ? 2 : 1) + scales_bytes();
  }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const override;
  bool has_short_steps(std::size_t begin, std::size_t end) const override {
    return short_steps(begin, end) == end - begin;
  }
  bool has_short_chain(const ConvJob& job) const override;
  int convolve(const ConvJob& job, const Relay& relay) const override;
  Flags packed_flags(const ConvJob& job) const override { return packed_flags(packed_of(job, tile_for(job))); }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + packed_header - 1) / packed_header * packed_header; }
  int pieces() const { return static_cast<int>(ceil_div(g_.columns * g_.tap_count(), packed_rows)); }
  // What is packed: whether weights are finite, by piece of them; shifts; weights.
  std::size_t shifts_at() const { return rounded(static_cast<std::size_t>(g_.bands * g_.chunks * pieces())); }
  std::size_t header() const {
    return shifts_at() + rounded(3 * sizeof(int) * static_cast<std::size_t>(g_.tap_count()));
  }
  double weight_bytes() const { return 1.0 * g_.bands * g_.tap_count() * g_.chunks * g_.columns * g_.row_bytes; }
  // Of f16 in place of tf32, behind all that is packed: filters' scales, and what undoes them.
  bool scales_filters() const { return g_.halved() && !begins_with_norm(*program_); }
  double scales_bytes() const { return scales_filters() ? 2.0 * sizeof(float) * g_.out_channels : 0; }
  std::size_t scales_at() const { return static_cast<std::size_t>(packed_bytes() - scales_bytes()); }
  // Those with joined taps, behind the weights that other tiles use.
  std::size_t joined_at() const { return only_marches_ ? 0 : header() + static_cast<std::size_t>(weight_bytes()); }
  const std::byte* packed_of(const ConvJob& job, const Tile& tile) const {
    return job.packed + (tile.way == Way::march ? joined_at() : 0);
  }
  Flags packed_flags(const std::byte* packed) const { return {packed, flag_loads(g_.bands * g_.chunks * pieces())}; }
  const Tile& tile_for(const ConvJob& job) const;
  void pack_as(const Tile& tile, PackParams p, std::byte* packed, cudaStream_t stream, bool early) const;
  bool folds(const Step& step) const;
  std::size_t short_steps(std::size_t begin, std::size_t end) const;  // of the program's, that make a short chain
  // Whether all of the program is one: each launch has all of it behind it, and stores to the output.
  bool is_short() const {
    const std::size_t count = program_->steps.size();
    const Descriptor& asked = *program_->asked;
    return short_steps(0, count) == count &&
           has_near_results(strides_of(asked.output_layout, asked.output), program_->convolution.stride);
  }
  void place_axes(const ConvJob& job, const Tile& tile, ConvParams& p) const;
  void place_tile(const Tile& tile, ConvParams& p) const;

  std::shared_ptr<const Program> program_;
  DeviceProperties device_;
  Choice choice_;
  const Geometry& g_;
  bool only_marches_ = false;  // whatever the launch: nobody uses other weights
};

std::string TiledConvolver::explain(bool pools) const {
  const Tile& t = pools ? choice_.folded : choice_.quick;
  const convt_dtype dtype = program_->asked->dtype;
  return fmt::format(
      "tensor cores in {}, {} output channels at a time; tiles {} positions, halo {} KiB x {}{}, weights {} KiB x {}",
      g_.halved()          ? "f16 in place of tf32"
      : dtype == CONVT_F32 ? "tf32"
      : dtype == CONVT_F16 ? "f16"
                           : "bf16",
      g_.columns, t.print(), t.slot_bytes >> 10, t.slots,
      t.resident || volume(program_->convolution.stride) == 1 ? "" : " (again for each phase)",
      t.stage_tiles * g_.columns * (t.way == Way::march ? joined_taps : 1) * g_.row_bytes >> 10, t.stages);
}

// A pool whose windows are the phases of a position.
bool TiledConvolver::folds(const Step& step) const {
  const Op* const op = std::get_if<Op>(&step.what);
  const Convolution& c = program_->convolution;
  if (op == nullptr || !can_fold(g_.columns) || !choice_.folded.rejection.empty() || volume(c.stride) == 1)
    return false;
  return std::visit(
      [&]<class T>(const T& pool) {
        if constexpr (std::is_same_v<T, ops::MaxPool> || std::is_same_v<T, ops::AvgPool>) {
          const auto [size, stride, padding] = windows_of(pool, step.in);
          bool whole = size == c.stride && stride == c.stride && padding == Axes{0, 0, 0};
          for (std::size_t a = 0; a < 3; ++a) whole &= step.out.space[a] * size[a] <= step.in.space[a];
          for (const convt_layout layout : {CONVT_CHANNELS_FIRST, CONVT_CHANNELS_LAST})
            whole &= has_near_results(strides_of(layout, step.out), {1, 1, 1});
          return whole;
        }
        return false;
      },
      *op);
}

std::size_t TiledConvolver::short_steps(std::size_t begin, std::size_t end) const {
  ShortOrder order;
  for (std::size_t i = begin; i < end; ++i) {
    const Part part = part_of(program_->steps[i]);
    const bool mixes_bands = part == Part::norm && g_.bands > 1;
    if (mixes_bands || order.take(part) == ShortOrder::nowhere) return i - begin;
  }
  return end - begin;
}

std::optional<std::size_t> TiledConvolver::pools(std::size_t begin, std::size_t pool, std::size_t end) const {
  if (!folds(program_->steps[pool]) || short_steps(begin, pool) != pool - begin) return std::nullopt;
  return short_steps(pool + 1, end);
}

void TiledConvolver::pack_as(const Tile& tile, PackParams p, std::byte* packed, cudaStream_t stream, bool early) const {
  p.careful = reinterpret_cast<unsigned char*>(packed);
  p.shifts = reinterpret_cast<int*>(packed + shifts_at());
  p.weights = packed + header();
  p.joined = tile.way == Way::march ? joined_taps : 1;
  p.taps = g_.tap_count() / p.joined;
  p.pieces = pieces();
  for (std::size_t a = 0; a < 3; ++a) {
    const TapAxis& axis = g_.taps[tile.order[a]];
    p.extent[a] = static_cast<int>(axis.kernel);
    for (int r = 0; r < axis.stride; ++r) {
      const PhaseTaps t = axis.taps(r);
      const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
      p.phases[a][r] = {narrow(t.count), narrow(t.first), narrow(t.step), narrow(t.first_shift), narrow(t.shift_step)};
    }
  }
  if (p.joined > 1) p.extent[0] = p.phases[0][0].count = 1;
  launch_pack(p, program_->asked->dtype, stream, early);
}

void TiledConvolver::pack(const void* kernel, [[maybe_unused]] convt_dtype dtype, void* packed, cudaStream_t stream,
                          bool early) const {
  assert(dtype == program_->asked->dtype);
  PackParams p;
  p.kernel = kernel;
  p.halved = g_.halved();
  p.in_channels = g_.in_channels;
  p.out_channels = g_.out_channels;
  p.band = g_.columns;
  p.bands = g_.bands;
  p.row_bytes = g_.row_bytes;
  p.chunks = g_.chunks;
  auto* const to = static_cast<std::byte*>(packed);
  p.scale = g_.halved() ? common_scale : 1;
  if (scales_filters()) {
    auto* const scales = reinterpret_cast<float*>(to + scales_at());
    launch_scale({static_cast<const float*>(kernel), scales, g_.in_channels, g_.out_channels, g_.tap_count()}, stream,
                 early);
    p.scales = scales;
    early = true;
  }
  if (!only_marches_) pack_as(choice_.strip, p, to, stream, early);
  if (choice_.quick.way == Way::march) pack_as(choice_.quick, p, to + joined_at(), stream, early || !only_marches_);
}

void TiledConvolver::place_axes(const ConvJob& job, const Tile& tile, ConvParams& p) const {
  const Descriptor& asked = *program_->asked;
  const Strides in = strides_of(asked.input_layout, asked.input);
  const std::array<std::int64_t, 3> steps{in.d, in.h, in.w};
  std::int64_t from = job.slab.images.begin * in.n;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t own = tile.order[a];
    ConvAxis& axis = p.axis[a];
    const std::int64_t stride = g_.taps[own].stride;
    const Lead lead = lead_of(job.slab.box.origin[own], g_.padding[own], stride);
    axis.taps = g_.taps[own];
    axis.stride = static_cast<int>(stride);
    axis.lead = static_cast<int>(lead.phase);
    axis.size = static_cast<int>(job.slab.box.size[own]);
    const bool marches = tile.way == Way::march && a == 0;
    axis.tile = marches ? axis.size : tile.size[a];
    axis.tiles = (axis.size - 1) / (axis.tile * axis.stride) + 1;
    const Reach reach = reach_of(axis.taps, lead.phase);
    axis.halo = marches ? 1 : static_cast<int>(tile.size[a] + reach.last - reach.first);
    axis.first = static_cast<int>(reach.first);
    axis.lowest = clamp_inside(-lead.position);
    axis.inputs = std::max(clamp_inside(program_->convolution.input[own] - lead.position) - axis.lowest, 0);
    axis.step = steps[own];
    from += lead.position * axis.step;
  }
  p.input = static_cast<const std::byte*>(job.input) + from * g_.element;
  p.there = job.input;
  p.image_step = in.n;
  p.channel_step = in.c;
  const int unit = 16 / g_.operand;
  p.units = in.c == 1 && g_.in_channels % unit == 0 && reinterpret_cast<std::uintptr_t>(job.input) % 16 == 0;
  p.pairs = g_.element == 2 && in.w == 1 && in.h % 2 == 0 && in.c % 2 == 0 &&
            reinterpret_cast<std::uintptr_t>(job.input) % 4 == 0;
}

void TiledConvolver::place_tile(const Tile& tile, ConvParams& p) const {
  const auto [depth, height, width] = tile.blocks;
  p.blocks = depth * height * width;
  const bool twins = tile.way == Way::twin;
  const int half = twin_line(p.axis[2].halo), line = twins ? 2 * half : p.axis[2].halo;
  const int plane = p.axis[1].halo * line, units = g_.row_bytes / 16;
  p.line_rows = line;
  if (tile.run) p.run = (1 << 16) / line + 1;
  for (int b = 0; b < p.blocks; ++b) {
    if (tile.run) {
      p.block_place[b] = b * positions_of(tile.way) * units;
      continue;
    }
    const std::array<int, 3> at{b / (height * width), b / width % height, b % width};
    int row = 0;
    for (std::size_t a = 0; a < 3; ++a) {
      p.origin[b][a] = at[a] * (tile.size[a] / tile.blocks[a]);
      row = row * (a == 2 ? line : p.axis[a].halo) + p.origin[b][a];
    }
    p.block_place[b] = row * units;
  }
  for (std::size_t a = 0; a < 3; ++a) p.block_size[a] = tile.size[a] / tile.blocks[a];
  p.group_step[tile.group_axis] = tile.group_axis == 2 ? 8 : 1;
  p.halo_rows = p.axis[0].halo * p.axis[1].halo * p.axis[2].halo;
  for (int i = 0; i < 3; ++i) p.parts[i] = Divisor(i == 0 ? p.axis[2].halo : (p.axis[2].halo + i) / 2);
  p.lines = Divisor(p.axis[1].halo);
  p.slots = tile.slots;
  p.slot_bytes = tile.slot_bytes;
  p.slot_units = tile.slot_bytes / 16;
  // Of twins, a row of the operand is a pixel and its neighbour, which belongs to another position.
  const int group_rows = twins ? half : tile.group_axis == 0 ? plane : tile.group_axis == 1 ? line : 8;
  p.input_layout = operand_layout(group_rows * g_.row_bytes, twins ? 2 * g_.row_bytes : g_.row_bytes);
  p.weight_layout = operand_layout(8 * g_.row_bytes, g_.row_bytes);
  p.stages = tile.stages;
  p.stage_tiles = tile.stage_tiles;
  p.resident = tile.resident;
  p.all_weights = tile.all_weights;
}

bool TiledConvolver::has_short_chain(const ConvJob& job) const {
  ShortChain before, behind;
  return has_near_results(job.to.step, job.pool == nullptr ? program_->convolution.stride : Axes{1, 1, 1}) &&
         shorten(job.chain, g_.out_channels, before) && shorten(job.behind, g_.out_channels, behind);
}

const Tile& TiledConvolver::tile_for(const ConvJob& job) const {
  if (job.pool != nullptr) return choice_.folded;
  if (!has_short_chain(job)) return choice_.strip;
  const convt_dtype dtype = program_->asked->dtype;
  const auto width = static_cast<int>(job.slab.box.size[2]);
  const bool along_w = choice_.quick.way == Way::wide || choice_.quick.way == Way::rows;
  const bool narrow = (along_w && (job.to.dtype != dtype || job.to.step.w != 1)) ||
                      (choice_.quick.way == Way::wide && !has_near_ends(job.to.step, choice_.quick.size)) ||
                      (choice_.quick.way == Way::twin && (g_.out_channels % 8 != 0 || !are_groups(4, job.to, width)));
  return narrow ? choice_.narrow : choice_.quick;
}

int TiledConvolver::convolve(const ConvJob& job, const Relay& relay) const {
  ConvParams p;
  const convt_dtype dtype = program_->asked->dtype;
  const Tile& tile = tile_for(job);
  if (tile.way != Way::strip) {
    shorten(job.chain, g_.out_channels, p.quick);
    shorten(job.behind, g_.out_channels, p.behind);
  }
  assert(tile.way != Way::strip || !only_marches_);
  if (g_.halved())
    undo_scales(job,
                scales_filters() ? reinterpret_cast<const float*>(job.packed + scales_at()) + g_.out_channels : nullptr,
                p);
  prepare_chains(job, dtype, volume(program_->convolution.stride), g_.out_channels == g_.columns, p);
  place_axes(job, tile, p);
  place_tile(tile, p);
  const std::byte* const packed = packed_of(job, tile);
  p.careful = packed_flags(packed);
  p.seen = relay.seen;
  std::ranges::copy(relay.guards, p.guards);
  p.shifts = reinterpret_cast<const int*>(packed + shifts_at());
  p.weights = packed + header();
  p.taps = g_.tap_count() / (tile.way == Way::march ? joined_taps : 1);
  p.in_channels = g_.in_channels;
  p.out_channels = g_.out_channels;
  p.row_bytes = g_.row_bytes;
  p.chunks = g_.chunks;
  p.steps = g_.row_bytes / step_bytes;
  p.last_steps = g_.last_steps;
  p.stage_units = tile.stage_tiles * g_.columns * g_.row_bytes / 16;
  p.tile_units = g_.columns * (tile.way == Way::march ? joined_taps : 1) * g_.row_bytes / 16;
  const auto groups = [&](int steps) { return (steps * step_bytes / g_.operand / group_channels + 1) / 2; };
  p.groups = groups(g_.row_bytes / step_bytes);
  p.last_groups = groups(g_.last_steps);
  p.plane_groups = (g_.chunks - 1) * p.groups + p.last_groups;
  p.bands = g_.bands;
  p.items = static_cast<int>(job.slab.images.size()) * p.axis[0].tiles * p.axis[1].tiles * p.axis[2].tiles * p.bands;
  p.paired = tile.way == Way::wide ? are_pairs(job.to, p.axis[2].size) && (!tile.run || p.axis[2].halo % 2 == 0)
                                   : is_paired(job.to, p.axis[2], g_.out_channels);
  p.vectors = tile.way == Way::folded && job.to.dtype == dtype && has_vectors(job.to, p.axis[2], g_);
  p.to = job.to;
  if (tile.order[0] == 1) std::swap(p.to.step.d, p.to.step.h);
  p.results = result_steps(p, job.pool != nullptr, g_.columns);
  p.missing = missing_everywhere(p);
  p.chain = job.chain;
  place_classes(p, tile.way == Way::march);
  const bool few = p.items < most_cut_rounds * device_.multiprocessors;
  const std::int64_t shares = cut_items(p, few && cuts_items(tile.way));
  const std::int64_t parts = tile.way == Way::march ? std::int64_t{p.items} * p.axis[0].size : shares;
  const auto grid = static_cast<int>(std::min<std::int64_t>(parts, device_.multiprocessors));
  if (tile.way != Way::march && tile.way != Way::deep) place_taps(p, joint_of(tile.way));
  // Where each block would have the same tile of every row.
  const bool same = p.axis[2].tiles > 1 && grid % (p.axis[2].tiles * p.bands) == 0;
  place_items(p, grid, tile.way == Way::wide && same);
  Way way = tile.way;
  int shared = tile.shared;
  if (is_pooled(p, g_.columns) && shared + pooled_bytes(g_.columns) <= most_shared && place_pooled(p)) {
    way = Way::pooled;
    shared += pooled_bytes(g_.columns);
  }
  const Launch how{static_cast<unsigned>(grid), job.stream, static_cast<std::size_t>(shared), job.early};
  const auto run = g_.halved()          ? launch_conv_halved
                   : dtype == CONVT_F32 ? launch_conv_tf32
                   : dtype == CONVT_F16 ? launch_conv_f16
                                        : launch_conv_bf16;
  run(way, g_.columns, p, how);
  return grid;
}

}  // namespace

bool has_near_results(const Strides& to, const Axes& phases) {
  // Groups of positions follow each other along any axis, 8 positions apart along w.
  const std::int64_t steps[] = {to.c, to.d * phases[0], to.h * phases[1], to.w * phases[2] * 8};
  return std::ranges::max(steps) <= std::numeric_limits<std::uint32_t>::max();
}

std::shared_ptr<const HopperConvolver> make_convolver(std::shared_ptr<const Program> program,
                                                      const DeviceProperties& device, const Choice& choice) {
  return std::make_shared<const TiledConvolver>(std::move(program), device, choice);
}

}  // namespace convt::core::cuda::sm90
