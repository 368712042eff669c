// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/tiles.hpp"

#include <algorithm>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/sm90/host/cost.hpp"
#include "cuda/sm90/host/make_program.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda::sm90 {
namespace {

constexpr std::int64_t most_sizes = std::int64_t{1} << 24;  // of kernels, channels and shifts: far above what fits
constexpr int most_group_rows = 2047;                       // of a descriptor's 14 bits of 16 bytes
constexpr int weight_stage_bytes = 16 << 10;
constexpr int most_windows = 16;        // of phases
constexpr std::int64_t most_parts = 7;  // of a line, beyond the fewest that fit
constexpr std::size_t most_runs = 4;    // the cheapest are candidates
constexpr int least_stages = 2, few_stages = 4;

int round_up(int value, int to) { return (value + to - 1) / to * to; }

int strip_bytes(int pixels, int columns) {
  return strip_shared<float>(pixels) + columns * (pixels + 1) * static_cast<int>(sizeof(float));
}

// Shared memory beside halo and weight stages: work tiles, output offsets, a strip or scale and bias, staged results.
int fixed_bytes(const Geometry& g, const Config& config) {
  const int chain = config.in_strip() ? strip_bytes(roles_of(config, g.columns).consumers * m_tile_rows, g.columns)
                                      : (config.folds() ? 2 : 1) * scale_bias_bytes(g.columns);
  const int staged = staged_bytes_of(config, g.columns, g.element);
  const WarpRoles roles = roles_of(config, g.columns);
  const int each = work_tile_bytes + (config.splits() ? partial_tile_bytes : 0);
  return shared_slack + (most_halo_stages + roles.warps()) * each + offset_bytes_of(config, g.columns) + chain + staged;
}

// Rows of the halo tile that a run reads, including those past the box.
std::int64_t run_rows(const Geometry& g, const Tile& tile) {
  const std::int64_t line = tile.halo[2], plane = tile.halo[1] * line;
  const std::int64_t last = (tile.halo[0] - 1) * plane + g.span[tile.order[1]] * line + g.span[tile.order[2]];
  return std::max(tile.halo[0] * plane, last + tile.m_tiles[2] * tile.config.positions());
}

// Sizes the stages. Shared memory goes to halo stages first, at most `halo_tiles` for each chunk; then to all weights
// if they fit, else to stages of weights.
void size_buffers(const Geometry& g, int halo_tiles, Tile& tile) {
  const int weights = g.columns * g.row_bytes;
  const std::int64_t all = std::int64_t{g.tap_count()} * g.chunks;
  // Weight tiles of a stage. Split operands wait for all products at the end of a stage, so their stages are larger.
  int streamed = std::max((g.splits() ? 2 : 1) * weight_stage_bytes / weights, 1);
  const int left = most_shared - fixed_bytes(g, tile.config);
  const int line = tile.config.duplicates() ? 2 * duplicated_line(tile.halo[2]) : tile.halo[2];
  const int rows = tile.run ? static_cast<int>(run_rows(g, tile)) : tile.halo[0] * tile.halo[1] * line;
  tile.halo_stage_bytes = round_up(rows * g.row_bytes, 1024);
  const auto fit_beside = [&](int stage) { return (left - least_stages * stage * weights) / tile.halo_stage_bytes; };
  if (g.splits() && streamed > 1 && fit_beside(streamed) < 2) streamed /= 2;
  const int fit = fit_beside(streamed);
  // With one phase, a chunk is released when the next one comes: a few stages suffice.
  const bool one_phase = volume({g.taps[0].stride, g.taps[1].stride, g.taps[2].stride}) == 1;
  tile.halo_stages = std::min({fit, one_phase ? halo_tiles + 1 : halo_tiles * g.chunks, most_halo_stages});
  tile.resident = !one_phase && tile.halo_stages >= g.chunks;
  if (tile.halo_stages < (one_phase ? 2 : std::min(2, g.chunks))) {
    tile.rejection = "its halo does not fit in shared memory";
    return;
  }
  const int after_halo = left - tile.halo_stages * tile.halo_stage_bytes;
  // Stages are halved if few would fit, but not with one phase, where small stages were slower.
  const int few = tile.config.duplicates() ? few_stages - 1 : few_stages;  // three large ones were faster
  if (tile.resident && after_halo / (streamed * weights) < few) streamed = std::max(streamed / 2, 1);
  if (streamed > 1) streamed -= streamed % 2;  // pairs of taps
  tile.all_weights = g.bands == 1 && all <= after_halo / weights;
  tile.weight_stage_tiles = tile.all_weights ? static_cast<int>(all) : streamed;
  tile.weight_stages =
      std::min(after_halo / (tile.weight_stage_tiles * weights), tile.all_weights ? 1 : most_weight_stages);
  tile.shared = fixed_bytes(g, tile.config) + tile.halo_stages * tile.halo_stage_bytes +
                tile.weight_stages * tile.weight_stage_tiles * weights;
}

// Completes a tile whose positions are known. Shared memory has room for the next halo or for more weights, whichever
// is predicted to be faster.
Tile with_buffers(const Geometry& g, Tile tile, const DeviceProperties& device) {
  Tile single = tile;
  for (const auto& [halo_tiles, to] : {std::pair{2, &tile}, std::pair{1, &single}}) {
    size_buffers(g, halo_tiles, *to);
    if (to->rejection.empty()) to->seconds = predict_tile(g, *to, g.batch, g.output, device).seconds;
  }
  return !single.rejection.empty() || (tile.rejection.empty() && tile.seconds <= single.seconds) ? tile : single;
}

Tile tile_of(const Geometry& g, const Config& config, int group_axis, const std::array<int, 3>& m_tiles,
             const DeviceProperties& device) {
  Tile tile;
  tile.config = config;
  tile.group_axis = group_axis;
  tile.m_tiles = m_tiles;
  std::int64_t rows = 1;
  for (int a = 0; a < 3; ++a) {
    const auto i = static_cast<std::size_t>(a);
    // With a duplicated halo, two groups of rows have 16 neighbouring positions.
    const int along_w = config.duplicates() ? 16 : 8;
    tile.size[i] = m_tiles[i] * (a == group_axis ? config.positions() / along_w : 1) * (a == 2 ? along_w : 1);
    tile.halo[i] = tile.size[i] + g.span[i];
    rows *= tile.halo[i];
  }
  const std::int64_t group_rows = group_axis == 0   ? std::int64_t{tile.halo[1]} * tile.halo[2]
                                  : group_axis == 1 ? tile.halo[2]
                                                    : 8;
  if (rows * g.row_bytes > most_shared || group_rows > most_group_rows) {
    tile.rejection = "its halo does not fit in shared memory";
    return tile;
  }
  tile.halo_rows = static_cast<int>(rows);
  return with_buffers(g, tile, device);
}

// Whether planes can slide along an axis.
bool slides(const TapAxis& axis) { return axis.stride == 1 && axis.kernel == joined_taps && axis.dilation == 1; }

// Whether planes can slide for this convolution; `order` gets the order of axes, with the planes' axis first.
bool sliding_order(const Geometry& g, std::array<std::size_t, 3>& order) {
  for (const TapAxis& axis : g.taps)
    if (axis.stride != 1) return false;
  if (g.bands > 1 || (!slides(g.taps[0]) && (g.taps[0].kernel > 1 || !slides(g.taps[1])))) return false;
  if (!slides(g.taps[0])) order = {1, 0, 2};
  return true;
}

// Completes a tile of sliding planes whose positions are known.
Tile sliding_tile(const Geometry& g, Tile tile, const DeviceProperties& device) {
  tile.size[0] = static_cast<int>(std::min(g.output[tile.order[0]], most_sizes));
  std::int64_t halo = 1;
  for (const std::size_t a : {1U, 2U}) {
    tile.halo[a] = tile.size[a] + g.span[tile.order[a]];
    halo *= tile.halo[a];
  }
  const std::int64_t rows = tile.run ? run_rows(g, tile) : halo;
  if (rows * g.row_bytes > most_shared) {
    tile.rejection = "its halo does not fit in shared memory";
    return tile;
  }
  tile.halo_rows = static_cast<int>(halo);
  const int taps = g.tap_count() / joined_taps, weights = joined_taps * g.columns * g.row_bytes;
  const std::int64_t left = most_shared - fixed_bytes(g, tile.config) - std::int64_t{taps} * g.chunks * weights;
  tile.halo_stage_bytes = round_up(static_cast<int>(rows) * g.row_bytes, 1024);
  tile.halo_stages = static_cast<int>(std::clamp<std::int64_t>(left / tile.halo_stage_bytes, 0, most_halo_stages));
  if (left < 0 || tile.halo_stages < 2) {
    tile.rejection = "weights and planes do not fit in shared memory";
    return tile;
  }
  tile.all_weights = true;
  tile.weight_stage_tiles = taps * g.chunks;
  tile.shared =
      fixed_bytes(g, tile.config) + tile.halo_stages * tile.halo_stage_bytes + tile.weight_stage_tiles * weights;
  tile.seconds = predict_tile(g, tile, g.batch, g.output, device).seconds;
  return tile;
}

// Completes a run with swapped operands.
Tile swapped_run(const Geometry& g, Tile tile, const DeviceProperties& device) {
  std::int64_t rows = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    tile.halo[a] = tile.size[a] + g.span[a];
    rows *= tile.halo[a];
  }
  if (run_rows(g, tile) * g.row_bytes > most_shared) {
    tile.rejection = "its halo does not fit in shared memory";
    return tile;
  }
  tile.halo_rows = static_cast<int>(rows);
  return with_buffers(g, tile, device);
}

// Tiles that are runs. They divide the output's lines into equal parts, and have as many lines as rows allow.
std::vector<Tile> run_tiles(const Geometry& g, const Config& config, const std::array<std::size_t, 3>& order,
                            const DeviceProperties& device) {
  std::vector<Tile> tiles;
  const int span = g.span[order[2]], rows = sliding_rows;
  static_assert(sliding_rows == roles_of(configs::swapped).consumers * configs::swapped.positions());
  // Pairs of outputs are aligned in the staging buffer only if lines have even length.
  if (config.swaps() && span % 2 != 0 && g.output[order[2]] % 2 == 0) return tiles;
  // Parts consist of whole sectors if rows do, else of pairs.
  const int whole = config.slides() ? 1 : g.ragged ? 2 : sector_bytes / g.element;
  const std::int64_t height = g.output[order[1]], width = g.output[order[2]];
  for (std::int64_t parts = ceil_div(width, rows); parts <= std::min(width, ceil_div(width, rows) + most_parts);
       ++parts) {
    Tile tile;
    tile.config = config;
    tile.run = true;
    tile.order = order;
    tile.group_axis = 2;
    tile.m_tiles = {1, 1, rows / config.positions()};
    const std::int64_t along_w = ceil_div(ceil_div(width, parts), whole) * whole;
    const std::int64_t most = (rows + span) / (along_w + span);
    tile.size = {1, static_cast<int>(ceil_div(height, ceil_div(height, most))), static_cast<int>(along_w)};
    tile = config.slides() ? sliding_tile(g, tile, device) : swapped_run(g, tile, device);
    if (tile.rejection.empty() && (tiles.empty() || tiles.back().size != tile.size)) tiles.push_back(tile);
  }
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.seconds < b.seconds; });
  if (tiles.size() > most_runs) tiles.resize(most_runs);
  return tiles;
}

std::vector<Tile> sliding_tiles(const Geometry& g, const Config& config, const DeviceProperties& device) {
  std::array<std::size_t, 3> order{0, 1, 2};
  std::vector<Tile> tiles;
  if (!sliding_order(g, order)) return tiles;
  tiles = run_tiles(g, config, order, device);
  const int m_tiles = sliding_rows / m_tile_rows;
  for (const int axis : {1, 2})
    for (int h = 1; h <= m_tiles; h *= 2) {
      Tile tile;
      tile.config = config;
      tile.order = order;
      tile.group_axis = axis;
      tile.m_tiles = {1, h, m_tiles / h};
      for (const int a : {1, 2})
        tile.size[static_cast<std::size_t>(a)] =
            tile.m_tiles[static_cast<std::size_t>(a)] * (a == axis ? 8 : 1) * (a == 2 ? 8 : 1);
      tiles.push_back(sliding_tile(g, tile, device));
    }
  return tiles;
}

// Chooses rows of 64 bytes if rows of 128 bytes would be much emptier.
void choose_rows(Geometry& g) {
  const auto bytes_in = [&](std::int64_t row) {
    return ceil_div(std::int64_t{g.in_channels} * g.operand(), row) * row;
  };
  set_rows(g, 5 * bytes_in(64) <= 4 * bytes_in(128) ? 64 : 128);
}

}  // namespace

int Geometry::tap_count() const { return static_cast<int>(taps[0].kernel * taps[1].kernel * taps[2].kernel); }

Reach reach_of(const TapAxis& axis, std::int64_t lead) {
  Reach reach{0, 0};
  bool any = false;
  for (std::int64_t j = 0; j < axis.stride; ++j) {
    const PhaseTaps taps = axis.taps((lead + j) % axis.stride);
    if (taps.count == 0) continue;
    const std::int64_t position = (lead + j) / axis.stride;
    const std::int64_t last = position - taps.first_shift, first = last - (taps.count - 1) * taps.shift_step;
    reach = any ? Reach{std::min(reach.first, first), std::max(reach.last, last)} : Reach{first, last};
    any = true;
  }
  return reach;
}

void set_columns(Geometry& g, bool norm) {
  double least = 0;
  for (const int columns : all_columns) {
    const double cost = static_cast<double>(ceil_div(g.out_channels, columns)) * instruction_clocks(columns);
    if (least != 0 && cost >= least) continue;
    least = cost;
    g.columns = columns;
  }
  if (norm && g.out_channels > g.columns && g.out_channels <= most_columns) g.columns = most_columns;
  g.bands = static_cast<int>(ceil_div(g.out_channels, g.columns));
}

void set_rows(Geometry& g, int bytes) {
  const int channels = bytes / g.operand(), step = step_bytes * g.parts() / g.operand();
  g.row_bytes = bytes;
  g.chunks = (g.in_channels - 1) / channels + 1;
  g.last_steps = (g.in_channels - (g.chunks - 1) * channels - 1) / step + 1;
}

Geometry with_f16(Geometry g) {
  g.format = guarded_format(g.format);
  choose_rows(g);
  return g;
}

bool mixes(const Program& program) { return std::ranges::any_of(program.steps, mixes_channels); }
bool begins_with_norm(const Program& program) {
  const Op* const op = program.steps.empty() ? nullptr : std::get_if<Op>(&program.steps.front().what);
  const auto* const norm = op == nullptr ? nullptr : std::get_if<ops::LayerNorm>(op);
  return norm != nullptr && norm->channels;
}

std::string describe(const Program& program, Geometry& g) {
  const Convolution& c = program.convolution;
  const Descriptor& asked = *program.asked;
  if (asked.dtype == CONVT_F64) return "computes in f32";
  if (asked.dtype != CONVT_F32 && program.kernel_change.any())
    return "the rewritten kernel is not in the tensors' dtype";
  if (c.groups != 1) return "takes one group of channels";
  if (std::max({c.in_channels, c.out_channels, asked.input.batch}) > most_sizes)
    return "there are over 2^24 channels or images";
  g.element = static_cast<int>(size_of(asked.dtype));
  g.format = asked.dtype == CONVT_F16                ? Format::f16
             : asked.dtype == CONVT_BF16             ? Format::bf16
             : asked.precision == CONVT_FLOAT32_TF32 ? Format::tf32
                                                     : Format::tf32x3;
  std::int64_t taps = 1;
  std::array<int, 3> strides{1, 1, 1};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t dilation = c.kernel[a] == 1 ? 1 : c.dilation[a];
    if (c.stride[a] > most_stride) return formatted("takes strides up to {}", most_stride);
    if (std::max(dilation, c.kernel[a]) > most_sizes) return "the kernel is too large";
    strides[a] = static_cast<int>(c.stride[a]);
    taps *= c.kernel[a];
    if (taps > most_taps) return formatted("takes kernels of up to {} taps", most_taps);
    g.taps[a] = tap_axis(c.kernel[a], c.stride[a], dilation);
    std::int64_t span = 0;
    for (std::int64_t lead = 0; lead < c.stride[a]; ++lead) {
      const Reach reach = reach_of(g.taps[a], lead);
      span = std::max(span, reach.last - reach.first);
    }
    if (span > most_shared) return "the taps reach too far";
    g.span[a] = static_cast<int>(span);
  }
  g.windows = PhaseWindows(strides);
  if (g.windows.count() > most_windows) return formatted("its phases would take {} launches", g.windows.count());
  const std::vector<Pass> passes = passes_of(program, Between::store, false);
  const Pass& pass = passes.front();
  for (std::size_t a = 0; a < 3; ++a) {
    const Interval used = walk_back(program, pass, a, {0, pass.out.space[a]}).front();
    g.output[a] = std::max<std::int64_t>(used.size(), 1);
  }
  g.padding = c.padding;
  g.batch = asked.input.batch;
  g.in_channels = static_cast<int>(c.in_channels);
  g.out_channels = static_cast<int>(c.out_channels);
  choose_rows(g);
  set_columns(g, mixes(program) && !g.splits());
  const std::span<const Step> chain = chain_of(program, pass, g.bands == 1);
  g.chain_clocks = chain_clocks_of(chain, place_of(chain, g.bands == 1));
  g.fours = c.out_channels % 8 == 0 && g.output[2] % 4 == 0 && asked.output_layout == CONVT_CHANNELS_FIRST;
  const bool direct = passes.size() == 1 && asked.output.space == g.output && (g.bands == 1 || !mixes(program));
  g.ragged = direct && asked.output_layout == CONVT_CHANNELS_FIRST && g.output[2] * g.element % sector_bytes != 0;
  return "";
}

std::string Tile::print() const {
  return formatted("{}{}{}", row_of(config).letter, run ? 'r' : axis_letters[static_cast<std::size_t>(group_axis)],
                   joined(size, "x"));
}

bool suits(const Geometry& g, const Config& config) {
  if (config.in_strip()) return true;
  if (!has_kernel(config, g.columns, g.format, g.element, false)) return false;
  if (config.folds() || config.hands_over()) return config.folds();
  const std::int64_t along_w = g.taps[2].stride;
  std::array<std::size_t, 3> order{0, 1, 2};
  if (config.slides()) return sliding_order(g, order);
  if (config.swaps()) return along_w * g.taps[0].stride * g.taps[1].stride == 1;
  if (config.stores(StoreTraits::all_phases) && (along_w != 2 || g.windows.count() > 1)) return false;
  if (config.stores(StoreTraits::lines) && !g.ragged) return false;
  if (config.duplicates() && (g.row_bytes != 64 || !g.fours)) return false;
  // With one chunk, k_heavy is tried only if `paired` does not have these columns.
  if (config.is_k_heavy() && g.chunks == 1 && has_columns(configs::paired, g.columns)) return false;
  return (along_w > 1) == (config.joint() > 1);
}

std::vector<Tile> tiles_of(const Geometry& g, const Config& config, const DeviceProperties& device) {
  if (config.slides()) return sliding_tiles(g, config, device);
  const int m_tiles = roles_of(config, g.columns).consumers * config.m_tiles(g.columns);
  std::vector<Tile> tiles;
  if (config.swaps()) tiles = run_tiles(g, config, {0, 1, 2}, device);
  for (const int axis : {1, 0, 2}) {  // of equal costs, the first axis is taken; the order was measured
    if (config.duplicates() && axis != 1) continue;
    for (int d = 1; d <= m_tiles; d *= 2)
      for (int h = 1; d * h <= m_tiles; h *= 2)
        tiles.push_back(tile_of(g, config, axis, {d, h, m_tiles / (d * h)}, device));
  }
  return tiles;
}

}  // namespace convt::core::cuda::sm90
