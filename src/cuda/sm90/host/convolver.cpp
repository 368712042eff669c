// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/convolver.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <utility>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/sm90/host/make_program.hpp"
#include "cuda/sm90/host/register_epilogue.hpp"
#include "cuda/sm90/host/tables.hpp"
#include "cuda/sm90/kernel/launchers.hpp"
#include "cuda/sm90/loader/pack.hpp"
#include "plan/algebra.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// Whether an epilogue warpgroup can run this fold.
bool has_epilogue_warpgroup(const ConvParams& p, const Geometry& g) {
  return has_kernel(configs::handed_over, g.columns, g.format, g.element, false) &&
         (p.fold.mode == Fold::sum_of_norm_without_affine || p.fold.mode == Fold::max_of_sums) &&
         (p.variant == MainloopVariant::two_steps_resident || p.variant == MainloopVariant::four_steps_resident);
}

class TiledConvolver : public HopperConvolver {
 public:
  TiledConvolver(std::shared_ptr<const Program> program, const DeviceProperties& device, const Choice& choice)
      : program_(std::move(program)), device_(device), choice_(choice), g_(choice_.geometry) {
    only_slides_ = choice_.preferred.config.slides() && all_in_registers();
  }

  std::int64_t mixed_channels() const override { return g_.columns; }
  bool keeps_values(std::size_t begin, std::size_t end) const override {
    // A strip cannot keep a value, so all jobs must be register programs, whatever their tile.
    return begin == 0 && end == program_->steps.size() && all_in_registers() && choice_.preferred.rejection.empty() &&
           choice_.plain.rejection.empty();
  }
  std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const override;
  Blocks blocks(const Axes&) const override { return {1.0 * g_.bands, 1.0 * g_.bands}; }
  Prediction predict(const PlannedJob& job) const override;
  std::string explain(const PlannedJob& job) const override;
  double packed_bytes() const override {
    const bool both = choice_.preferred.config.slides() && !only_slides_;
    return (static_cast<double>(header()) + weight_bytes()) * (both ? 2 : 1) + scales_bytes();
  }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const override;
  bool steps_run_in_registers(std::size_t begin, std::size_t end) const override {
    return register_steps(begin, end) == end - begin || program_steps(begin, end);
  }
  std::string why_not(std::size_t begin, std::size_t end) const override;
  bool runs_in_registers(const ConvJob& job) const override {
    return sm90::runs_in_registers(demand_of(job, g_), *program_, choice_);
  }
  bool runs_in_registers(const PlannedJob& job) const override {
    return sm90::runs_in_registers(demand_of(job, *program_, g_), *program_, choice_);
  }
  int launches() const override { return g_.windows.count(); }
  void convolve(const ConvJob& job, int launch, FallbackLink& link) const override;
  std::int64_t most_work_tiles() const override;
  Flags packed_flags(const ConvJob& job) const override {
    return packed_flags(packed_of(job, tile_for(demand_of(job, g_), *program_, choice_)));
  }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + packed_header - 1) / packed_header * packed_header; }
  int pieces() const { return static_cast<int>(ceil_div(g_.columns * g_.tap_count(), packed_rows)); }
  // A packed kernel has flags of its pieces, then shifts of taps, then weights.
  std::size_t shifts_at() const { return rounded(static_cast<std::size_t>(g_.bands * g_.chunks * pieces())); }
  std::size_t header() const {
    return shifts_at() + rounded(3 * sizeof(int) * static_cast<std::size_t>(g_.tap_count()));
  }
  double weight_bytes() const { return 1.0 * g_.bands * g_.tap_count() * g_.chunks * g_.columns * g_.row_bytes; }
  // For f16, the filters' scales and their inverses follow the packed kernel; for f16x3, then the inverse of the scale
  // that all filters get.
  bool scales_filters() const { return g_.guarded() && (g_.splits() || !begins_with_norm(*program_)); }
  double scales_bytes() const { return scales_filters() ? sizeof(float) * (2.0 * g_.out_channels + 1) : 0; }
  std::size_t scales_at() const { return static_cast<std::size_t>(packed_bytes() - scales_bytes()); }
  // Weights with joined taps, for sliding planes, follow the weights of other tiles.
  std::size_t joined_at() const { return only_slides_ ? 0 : header() + static_cast<std::size_t>(weight_bytes()); }
  const std::byte* packed_of(const ConvJob& job, const Tile& tile) const {
    return job.packed + (tile.config.slides() ? joined_at() : 0);
  }
  Flags packed_flags(const std::byte* packed) const { return {packed, flag_loads(g_.bands * g_.chunks * pieces())}; }
  void pack_as(const Tile& tile, PackParams p, std::byte* packed, cudaStream_t stream, bool early) const;
  bool folds(const Step& step) const;
  std::size_t register_steps(std::size_t begin,
                             std::size_t end) const;  // how many of the program's steps make a register epilogue
  // Whether the program's steps make a register program.
  bool program_steps(std::size_t begin, std::size_t end) const {
    return has_program(std::span(program_->steps).subspan(begin, end - begin), g_.bands == 1);
  }
  bool takes_tensors(std::size_t begin, std::size_t end) const {
    return std::any_of(program_->steps.begin() + static_cast<std::ptrdiff_t>(begin),
                       program_->steps.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Step& step) { return takes_tensor(step); });
  }
  // Whether the whole program runs in registers. If so, every launch runs all of it and stores to the output. An
  // element of a whole tensor has the offset of its result, unless the output is a range of channels.
  bool all_in_registers() const {
    const std::size_t count = program_->steps.size();
    const Descriptor& asked = *program_->asked;
    return steps_run_in_registers(0, count) && asked.output.channels == g_.out_channels &&
           (!takes_tensors(0, count) || (!asked.slices_output() && g_.windows.count() == 1)) &&
           has_near_results(strides_of(asked.output_layout, asked.output, asked.output_within),
                            program_->convolution.stride);
  }
  // programmed: the chain is a register program.
  void prepare_epilogue(const ConvJob& job, const Tile& tile, bool programmed, ConvParams& p) const;
  // Returns the phases of the box's first output.
  std::array<int, 3> set_axes(const ConvJob& job, const Tile& tile, const PhaseWindow& window, ConvParams& p) const;
  void set_tile(const Tile& tile, ConvParams& p) const;
  void pass_on(const Tile& tile, const Launch& how, ConvParams& p, FallbackLink& link) const;

  std::shared_ptr<const Program> program_;
  DeviceProperties device_;
  Choice choice_;
  const Geometry& g_;
  bool only_slides_ = false;  // all launches use weights with joined taps
};

Prediction TiledConvolver::predict(const PlannedJob& job) const {
  const Demand demand = demand_of(job, *program_, g_);
  const Tile& tile = tile_for(demand, *program_, choice_);
  Geometry g = g_;
  g.chain_clocks = chain_clocks_of(std::span(program_->steps).subspan(job.begin, job.chain_end() - job.begin),
                                   tile.config.in_strip() ? ChainPlace::strip : demand.place);
  return predict_tile(g, tile, job.images, job.box, device_);
}

std::string TiledConvolver::explain(const PlannedJob& job) const {
  const Demand demand = demand_of(job, *program_, g_);
  const Tile& t = tile_for(demand, *program_, choice_);
  return formatted(
      "tensor cores in {}, {} output channels at a time; tiles {} positions, halo {} KiB x {}{}, weights {} KiB x {}{}",
      launchers_of(g_.format, g_.element).about, g_.columns, t.print(), t.halo_stage_bytes >> 10, t.halo_stages,
      t.resident || volume(program_->convolution.stride) == 1 ? "" : " (again for each phase)",
      t.weight_stage_tiles * g_.columns * t.config.joined() * g_.row_bytes >> 10, t.weight_stages,
      t.config.in_strip()                   ? "; the chain runs in strips"
      : demand.place == ChainPlace::program ? "; the chain is a register program"
                                            : "");
}

// Whether a step is a pool whose windows are the phases of a position.
bool TiledConvolver::folds(const Step& step) const {
  const Op* const op = std::get_if<Op>(&step.what);
  const Convolution& c = program_->convolution;
  if (op == nullptr || !choice_.folded.rejection.empty() || volume(c.stride) == 1 || g_.windows.count() > 1)
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

std::size_t TiledConvolver::register_steps(std::size_t begin, std::size_t end) const {
  EpilogueOrder order;
  for (std::size_t i = begin; i < end; ++i) {
    const Part part = part_of(program_->steps[i]);
    const bool mixes_bands = part == Part::norm && g_.bands > 1;
    if (mixes_bands || order.take(part) == EpilogueOrder::nowhere) return i - begin;
  }
  return end - begin;
}

std::optional<std::size_t> TiledConvolver::pools(std::size_t begin, std::size_t pool, std::size_t end) const {
  if (!folds(program_->steps[pool]) || register_steps(begin, pool) != pool - begin) return std::nullopt;
  return register_steps(pool + 1, end);
}

void TiledConvolver::pack_as(const Tile& tile, PackParams p, std::byte* packed, cudaStream_t stream, bool early) const {
  p.nonfinite = reinterpret_cast<unsigned char*>(packed);
  p.shifts = reinterpret_cast<int*>(packed + shifts_at());
  p.weights = packed + header();
  p.joined = tile.config.joined();
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
  launch_pack(p, g_.format, g_.element, stream, early);
}

void TiledConvolver::pack(const void* kernel, [[maybe_unused]] convt_dtype dtype, void* packed, cudaStream_t stream,
                          bool early) const {
  assert(dtype == program_->asked->dtype);
  PackParams p;
  p.kernel = kernel;
  p.in_channels = g_.in_channels;
  p.out_channels = g_.out_channels;
  p.band = g_.columns;
  p.bands = g_.bands;
  p.row_bytes = g_.row_bytes;
  p.chunks = g_.chunks;
  auto* const to = static_cast<std::byte*>(packed);
  p.scale = g_.tf32_as_f16() ? common_scale : 1;
  if (scales_filters()) {
    auto* const scales = reinterpret_cast<float*>(to + scales_at());
    launch_scale({static_cast<const float*>(kernel), scales, g_.in_channels, g_.out_channels, g_.tap_count()}, stream,
                 early);
    p.scales = scales;
    p.undo = scales + 2 * static_cast<std::size_t>(g_.out_channels);
    early = true;
  }
  if (!only_slides_) pack_as(choice_.strip, p, to, stream, early);
  if (choice_.preferred.config.slides())
    pack_as(choice_.preferred, p, to + joined_at(), stream, early || !only_slides_);
}

// Strips, and whole tensors whose strides differ from the results', count outputs of all phases. So windows exclude
// them.
std::string TiledConvolver::why_not(std::size_t begin, std::size_t end) const {
  const Descriptor& asked = *program_->asked;
  const bool near = has_near_results(strides_of(asked.output_layout, asked.output, asked.output_within),
                                     program_->convolution.stride);
  if (g_.windows.count() == 1 || (steps_run_in_registers(begin, end) && !takes_tensors(begin, end) && near)) return "";
  return "its phases take several launches, and its chain does not run in registers";
}

std::array<int, 3> TiledConvolver::set_axes(const ConvJob& job, const Tile& tile, const PhaseWindow& window,
                                            ConvParams& p) const {
  const Descriptor& asked = *program_->asked;
  const Strides in = strides_of(asked.input_layout, asked.input);
  const std::array<std::int64_t, 3> steps{in.d, in.h, in.w};
  std::int64_t from = job.slab.images.begin * in.n;
  std::array<int, 3> leads{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t own = tile.order[a];
    ConvAxis& axis = p.axis[a];
    const std::int64_t stride = g_.taps[own].stride;
    const Lead lead = lead_of(job.slab.box.origin[own], g_.padding[own], stride);
    leads[a] = static_cast<int>(lead.phase);
    axis.taps = g_.taps[own];
    axis.stride = window.count[own];
    // The first phase of the window whose outputs belong to the next position.
    const auto wraps = static_cast<int>(stride - lead.phase) - window.first[own];
    axis.lead = std::clamp(axis.stride - wraps, 0, axis.stride);
    axis.size = static_cast<int>(outputs_in(window, own, job.slab.box.size[own]));
    const bool slides = tile.config.slides() && a == 0;
    axis.tile = slides ? axis.size : tile.size[a];
    axis.tiles = (axis.size - 1) / (axis.tile * axis.stride) + 1;
    const Reach reach = reach_of(axis.taps, lead.phase);
    axis.halo = slides ? 1 : static_cast<int>(tile.size[a] + reach.last - reach.first);
    axis.first = static_cast<int>(reach.first);
    axis.lowest = clamp_inside(-lead.position);
    axis.inputs = std::max(clamp_inside(program_->convolution.input[own] - lead.position) - axis.lowest, 0);
    axis.step = steps[own];
    from += lead.position * axis.step;
  }
  p.input = static_cast<const std::byte*>(job.input) + from * g_.element;
  p.any_pixel = job.input;
  p.image_step = in.n;
  p.channel_step = in.c;
  p.units =
      in.c == 1 && g_.in_channels % g_.unit_channels() == 0 && reinterpret_cast<std::uintptr_t>(job.input) % 16 == 0;
  p.pairs = g_.element == 2 && in.w == 1 && in.h % 2 == 0 && in.c % 2 == 0 &&
            reinterpret_cast<std::uintptr_t>(job.input) % 4 == 0;
  return leads;
}

void TiledConvolver::set_tile(const Tile& tile, ConvParams& p) const {
  const auto [depth, height, width] = tile.m_tiles;
  p.m_tiles = depth * height * width;
  const bool duplicated = tile.config.duplicates();
  const int half = duplicated_line(p.axis[2].halo), line = duplicated ? 2 * half : p.axis[2].halo;
  const int plane = p.axis[1].halo * line, units = g_.row_bytes / 16;
  p.line_rows = line;
  if (tile.run) p.run = (1 << 16) / line + 1;
  for (int b = 0; b < p.m_tiles; ++b) {
    if (tile.run) {
      p.m_tile_offset[b] = b * tile.config.positions() * units;
      continue;
    }
    const std::array<int, 3> at{b / (height * width), b / width % height, b % width};
    int row = 0;
    for (std::size_t a = 0; a < 3; ++a) {
      p.origin[b][a] = at[a] * (tile.size[a] / tile.m_tiles[a]);
      row = row * (a == 2 ? line : p.axis[a].halo) + p.origin[b][a];
    }
    p.m_tile_offset[b] = row * units;
  }
  for (std::size_t a = 0; a < 3; ++a) p.m_tile_size[a] = tile.size[a] / tile.m_tiles[a];
  p.group_step[tile.group_axis] = tile.group_axis == 2 ? 8 : 1;
  p.halo_rows = p.axis[0].halo * p.axis[1].halo * p.axis[2].halo;
  for (int i = 0; i < 3; ++i) p.parts[i] = Divisor(i == 0 ? p.axis[2].halo : (p.axis[2].halo + i) / 2);
  p.plane_lines = Divisor(p.axis[1].halo);
  p.halo_stages = tile.halo_stages;
  p.halo_stage_bytes = tile.halo_stage_bytes;
  p.halo_stage_units = tile.halo_stage_bytes / 16;
  // In the duplicated halo, an operand's row has two pixels, which belong to different positions.
  const int group_rows = duplicated ? half : tile.group_axis == 0 ? plane : tile.group_axis == 1 ? line : 8;
  p.input_layout = operand_layout(group_rows * g_.row_bytes, duplicated ? 2 * g_.row_bytes : g_.row_bytes);
  p.weight_layout = operand_layout(8 * g_.row_bytes, g_.row_bytes);
  p.weight_stages = tile.weight_stages;
  p.weight_stage_tiles = tile.weight_stage_tiles;
  p.resident = tile.resident;
  p.all_weights = tile.all_weights;
}

void TiledConvolver::prepare_epilogue(const ConvJob& job, const Tile& tile, bool programmed, ConvParams& p) const {
  const float* const undo = scales_filters() && !g_.splits()
                                ? reinterpret_cast<const float*>(job.packed + scales_at()) + g_.out_channels
                                : nullptr;
  if (programmed) {
    make_program(job.chain, job.to, g_.out_channels, g_.bands == 1, p.program);
    if (g_.tf32_as_f16()) undo_scales(undo != nullptr, p.program);
    p.undo = undo;
    return;
  }
  if (!tile.config.in_strip()) {
    match_epilogue(job.chain, g_.out_channels, p.epilogue);
    match_epilogue(job.behind, g_.out_channels, p.after_fold);
  }
  if (g_.tf32_as_f16()) undo_scales(job, undo, p);
  prepare_epilogues(job, program_->asked->dtype, volume(program_->convolution.stride), g_.out_channels == g_.columns,
                    g_.splits(), p);
}

void TiledConvolver::convolve(const ConvJob& whole, int launch, FallbackLink& link) const {
  const PhaseWindow window = g_.windows.at(launch);  // a tile reorders axes only if all strides are 1
  for (std::size_t a = 0; a < 3; ++a)
    if (outputs_in(window, a, whole.slab.box.size[a]) == 0) return;
  ConvJob job = whole;
  job.early = whole.early && launch == 0;
  job.to.data =
      static_cast<std::byte*>(job.to.data) +
      static_cast<std::int64_t>(size_of(job.to.dtype)) *
          (window.first[0] * job.to.step.d + window.first[1] * job.to.step.h + window.first[2] * job.to.step.w);
  ConvParams p;
  const convt_dtype dtype = program_->asked->dtype;
  const Demand demand = demand_of(job, g_);
  const Tile& tile = tile_for(demand, *program_, choice_);
  assert(!tile.config.in_strip() || !only_slides_);
  const bool programmed = !tile.config.in_strip() && demand.place == ChainPlace::program;
  prepare_epilogue(job, tile, programmed, p);
  const std::array<int, 3> leads = set_axes(job, tile, window, p);
  set_tile(tile, p);
  const std::byte* const packed = packed_of(job, tile);
  p.nonfinite = packed_flags(packed);
  p.weight_guard = link.weight_guard;
  p.shifts = reinterpret_cast<const int*>(packed + shifts_at());
  p.weights = packed + header();
  p.taps = g_.tap_count() / tile.config.joined();
  p.in_channels = g_.in_channels;
  p.out_channels = g_.out_channels;
  p.row_bytes = g_.row_bytes;
  p.chunks = g_.chunks;
  p.steps = g_.row_steps();
  p.last_steps = g_.last_steps;
  p.weight_stage_units = tile.weight_stage_tiles * g_.columns * g_.row_bytes / 16;
  p.tile_units = g_.columns * tile.config.joined() * g_.row_bytes / 16;
  const auto groups = [&](int steps) { return (steps * step_bytes / g_.operand() / group_channels + 1) / 2; };
  p.groups = groups(g_.row_bytes / step_bytes);
  p.last_groups = groups(g_.last_steps);
  p.plane_groups = (g_.chunks - 1) * p.groups + p.last_groups;
  p.bands = g_.bands;
  p.work_tiles =
      static_cast<int>(job.slab.images.size()) * p.axis[0].tiles * p.axis[1].tiles * p.axis[2].tiles * p.bands;
  p.paired = tile.config.swaps() ? are_pairs(job.to, p.axis[2].size) && (!tile.run || p.axis[2].halo % 2 == 0)
                                 : window.stride[2] % 2 == 0 &&
                                       is_paired(job.to, p.axis[2], programmed ? p.program.channels : g_.out_channels);
  p.vectors = tile.config.folds() && job.to.dtype == dtype && has_vectors(job.to, p.axis[2], g_);
  p.to = job.to;
  if (tile.order[0] == 1) std::swap(p.to.step.d, p.to.step.h);
  p.results = result_steps(p, job.pool != nullptr ? std::array{1, 1, 1} : window.stride, g_.columns);
  p.missing = missing_everywhere(p);
  p.chain = job.chain;
  fill_phases(window, leads, tile.config.slides(), p);
  const bool few = p.work_tiles < most_split_rounds * device_.multiprocessors;
  const std::int64_t partials = split_work_tiles(p, few && tile.config.splits(), device_.multiprocessors);
  const std::int64_t parts = tile.config.slides() ? std::int64_t{p.work_tiles} * p.axis[0].size : partials;
  const auto grid = static_cast<int>(std::min<std::int64_t>(parts, device_.multiprocessors));
  if (!tile.config.slides() && !tile.config.is_k_heavy()) list_taps(p, tile.config.joint());
  // Without rotation, each block would have the same tile of every row.
  const bool same = p.axis[2].tiles > 1 && grid % (p.axis[2].tiles * p.bands) == 0;
  assign_work_tiles(p, grid, tile.config.rotates() && same);
  Config config = tile.config;
  int shared = tile.shared;
  if (has_epilogue_warpgroup(p, g_) && shared + epilogue_warpgroup_bytes(g_.columns) <= most_shared &&
      list_folded_taps(p)) {
    config = configs::handed_over;
    shared += epilogue_warpgroup_bytes(g_.columns);
  }
  const Launch how{static_cast<unsigned>(grid), job.stream, static_cast<std::size_t>(shared), job.early};
  if (scales_filters() && g_.splits())
    p.weight_undo =
        reinterpret_cast<const float*>(job.packed + scales_at()) + 2 * static_cast<std::size_t>(g_.out_channels);
  const Launchers& launchers = launchers_of(g_.format, g_.element);
  pass_on(tile, how, p, link);
  (programmed ? launchers.program : launchers.conv)(config, g_.columns, p, how);
}

// Passes the first kernel's assignment of work tiles on to the fallback kernel.
void TiledConvolver::pass_on(const Tile& tile, const Launch& how, ConvParams& p, FallbackLink& link) const {
  if (link.range_flags == nullptr) return;
  if (!g_.guarded()) {
    p.fallback.first = link.assignment;
    for (std::size_t a = 0; a < 3; ++a)
      p.fallback.first.axis[a] = static_cast<int>(std::ranges::find(tile.order, link.order[a]) - tile.order.begin());
    p.fallback.list = link.list;
    p.fallback.pitch = most_rounds(p.work_tiles, p.grid) + list_header;
    constexpr int most_threads = 1024;  // of a block
    const auto shared = static_cast<int>(how.shared);
    p.fallback.most_work_tiles = (shared - most_threads * static_cast<int>(sizeof(int)) - 64) * 8;
    return;
  }
  link.order = tile.order;
  p.range_flags = link.range_flags;
  link.assignment = assignment_of(p, tile.config.slides());
}

std::int64_t TiledConvolver::most_work_tiles() const {
  std::int64_t most = 1;
  for (const Tile* tile : {&choice_.preferred, &choice_.plain, &choice_.folded, &choice_.strip}) {
    if (!tile->rejection.empty()) continue;
    std::int64_t work_tiles = capped_product({program_->asked->input.batch, g_.bands});
    for (std::size_t a = 0; a < 3; ++a) {
      const std::size_t own = tile->order[a];
      if (tile->config.slides() && a == 0) continue;
      work_tiles = capped_product(
          {work_tiles, ceil_div(program_->convolution.output[own], tile->size[a] * g_.taps[own].stride)});
    }
    most = std::max(most, work_tiles);
  }
  return most;
}

}  // namespace

std::shared_ptr<const HopperConvolver> make_convolver(std::shared_ptr<const Program> program,
                                                      const DeviceProperties& device, const Choice& choice) {
  return std::make_shared<const TiledConvolver>(std::move(program), device, choice);
}

}  // namespace convt::core::cuda::sm90
