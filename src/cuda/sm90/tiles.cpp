// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda::sm90 {
namespace {

constexpr std::int64_t most_sizes = std::int64_t{1} << 24;  // of kernels, channels and shifts: far above what fits
constexpr int most_group_rows = 2047;                       // of a descriptor's 14 bits of 16 bytes
constexpr int stage_bytes = 16 << 10;
constexpr std::int64_t most_parts = 7;  // of a line, beyond those that are needed
constexpr std::size_t most_runs = 4;    // that are tried: the cheapest
constexpr int least_stages = 2, few_stages = 4;

int round_up(int value, int to) { return (value + to - 1) / to * to; }

int strip_bytes(int pixels, int columns) {
  return strip_shared<float>(pixels) + columns * (pixels + 1) * static_cast<int>(sizeof(float));
}

// Of a matrix instruction: as many as its columns take, and at least what its rows take to read; among other work, more
// (docs/hopper-notes.md).
double instruction_clocks(int columns) { return 1.4 * std::max(columns / 2.0, 16 + columns / 4.0); }
// Positions as columns leave more of shared memory to others.
double block_clocks(Way way, int columns) {
  if (way == Way::wide) return 1.3 * wide_positions / 2.0 * columns / wide_channels;
  return instruction_clocks(columns) * (way == Way::deep ? 1.2 : 1);  // where two warpgroups hide less than four
}

// Of a tile that marches, in matrix instructions.
constexpr int march_rows = team_of(Way::march).consumers * blocks_of(Way::march) * block_rows;

// Bytes behind halo tiles and weights: items, places of results, a strip of both warpgroups' blocks or lines of short
// chains, staged results.
int fixed_bytes(const Geometry& g, Way way) {
  const int chain = way == Way::strip ? strip_bytes(team_of(way, g.columns).consumers * block_rows, g.columns)
                                      : (way == Way::folded ? 2 : 1) * lines_bytes(g.columns);
  const int staged = way == Way::wide    ? wide_staged_bytes(g.element)
                     : way == Way::march ? march_staged_bytes(march_rows, g.columns)
                     : way == Way::rows  ? rows_staged_bytes(g.element)
                                         : 0;
  const Team team = team_of(way, g.columns);
  const int each = item_bytes + (cuts_items(way) ? share_bytes : 0);
  return shared_slack + (most_slots + team.warps()) * each + place_bytes_of(way, g.columns) + chain + staged;
}

// A run's rows read what is behind them as well: the box's rows, and those.
std::int64_t run_rows(const Geometry& g, const Tile& tile) {
  const std::int64_t line = tile.halo[2], plane = tile.halo[1] * line;
  const std::int64_t last = (tile.halo[0] - 1) * plane + g.span[tile.order[1]] * line + g.span[tile.order[2]];
  return std::max(tile.halo[0] * plane, last + tile.blocks[2] * positions_of(tile.way));
}

// Halo tiles first, so many of each chunk at most; then all weights where they fit, or else stages of them.
void place_buffers(const Geometry& g, int halo_tiles, Tile& tile) {
  const int weights = g.columns * g.row_bytes;
  const std::int64_t all = std::int64_t{g.tap_count()} * g.chunks;
  int streamed = std::max(stage_bytes / weights, 1);  // tiles of a stage
  const int left = most_shared - fixed_bytes(g, tile.way);
  const int line = tile.way == Way::twin ? 2 * twin_line(tile.halo[2]) : tile.halo[2];
  const int rows = tile.run ? static_cast<int>(run_rows(g, tile)) : tile.halo[0] * tile.halo[1] * line;
  tile.slot_bytes = round_up(rows * g.row_bytes, 1024);
  const int fit = (left - least_stages * streamed * weights) / tile.slot_bytes;
  // One phase is done with a chunk when the next one comes: a few slots do.
  const bool one_phase = volume({g.taps[0].stride, g.taps[1].stride, g.taps[2].stride}) == 1;
  tile.slots = std::min({fit, one_phase ? halo_tiles + 1 : halo_tiles * g.chunks, most_slots});
  tile.resident = !one_phase && tile.slots >= g.chunks;
  if (tile.slots < (one_phase ? 2 : std::min(2, g.chunks))) {
    tile.rejection = "its halo does not fit in shared memory";
    return;
  }
  const int behind_slots = left - tile.slots * tile.slot_bytes;
  // Smaller ones where they are few; of one phase they were slower.
  const int few = tile.way == Way::twin ? few_stages - 1 : few_stages;  // three large ones were faster there
  if (tile.resident && behind_slots / (streamed * weights) < few) streamed = std::max(streamed / 2, 1);
  if (streamed > 1) streamed -= streamed % 2;  // pairs of taps
  tile.all_weights = g.bands == 1 && all <= behind_slots / weights;
  tile.stage_tiles = tile.all_weights ? static_cast<int>(all) : streamed;
  tile.stages = std::min(behind_slots / (tile.stage_tiles * weights), tile.all_weights ? 1 : most_stages);
  tile.shared = fixed_bytes(g, tile.way) + tile.slots * tile.slot_bytes + tile.stages * tile.stage_tiles * weights;
}

// In clocks of one multiprocessor; rates were measured (docs/hopper-notes.md).
constexpr double load_latency = 1400;    // of a load that many wait for
constexpr double weight_latency = 1400;  // of a stage of weights, which all multiprocessors read at once
constexpr int sector_bytes = 32;
constexpr double sector_rate = 32, weight_rate = 24;  // bytes per clock
constexpr double result_rate = 6, twin_rate = 6.5;    // sums per clock
constexpr double staging_clocks = 1000;               // of a tile where positions are columns: waiting, staging
// Of an input, where each is multiplied in one phase alone, beside products with 128 columns and with fewer. Of 16
// bits, pairs are loaded.
constexpr double value_clocks(Way way, int element) {
  if (way == Way::wide) return element == 4 ? 0.72 : 0.26;
  return way != Way::single ? 0 : element == 4 ? 1.15 : 0.48;
}
// Of a run of outputs: by writers; of a line whose first and last sectors are written in parts; the same of a few
// positions, and of their phases one by one; of half a sector.
constexpr double writer_clocks = 5, line_clocks = 20, run_clocks = 10, apart_clocks = 18, half_clocks = 5;
constexpr double run_rate = 18, writer_rate = 13;  // bytes per clock

// Of the loads of a box of so many rows in lines of so many pixels, which begin anywhere in a sector.
double sector_clocks(const Geometry& g, int rows, int line) {
  return static_cast<double>(rows) / line * g.in_channels * (line * g.element + sector_bytes) / sector_rate;
}
// Of filling it.
double halo_clocks(const Geometry& g, const Tile& tile) {
  const Team team = team_of(tile.way, g.columns);
  const double loads = tile.resident ? 32 : loads_of(team);  // of what stays, the next one's come early
  const int rows = tile.halo_rows, line = tile.halo[2], warps = team.halo_warps(all_fill(tile.way, tile.all_weights));
  const double batches = rows / (32.0 * warps) * g.chunks * (g.row_bytes / g.operand) / loads;
  const double values = 1.0 * rows * g.in_channels * value_clocks(tile.way, g.element);
  return std::max({std::ceil(batches) * load_latency, sector_clocks(g, rows, line), values});
}

double steps_of(const Geometry& g) { return (g.chunks - 1) * g.row_bytes / step_bytes + g.last_steps; }

// Outputs along w that are stored at once, of a line of so many.
double run_of(const Geometry& g, const Tile& tile, std::int64_t line) {
  const bool lines = tile.way == Way::rows || tile.way == Way::wide;
  const std::int64_t most = (lines ? tile.size[2] : 8) * std::min<std::int64_t>(joint_of(tile.way), g.taps[2].stride);
  return static_cast<double>(line) / static_cast<double>(ceil_div(line, most));
}
// Of storing so many outputs in pieces that are no whole sectors: where rows begin and end anywhere, or of half a one.
double piece_clocks(const Geometry& g, const Tile& tile, double outputs, double run) {
  if (tile.way == Way::wide) return 0;
  if (!g.ragged) return tile.way == Way::single && 8 * g.element < sector_bytes ? outputs / run * half_clocks : 0;
  const bool pairs = g.taps[2].stride == 2 && g.output[2] % 2 == 0 && g.out_channels % 8 == 0;
  const bool apart = joint_of(tile.way) == 2 && !pairs;  // phases are
  const double ends = tile.way == Way::rows ? line_clocks : apart ? apart_clocks : run_clocks;
  return outputs / run * (ends + run * g.element / run_rate);
}

double tile_seconds(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                    const DeviceProperties& device) {
  double items = static_cast<double>(images) * g.bands, positions = 1, phases = 1, shares = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const auto stride = g.taps[a].stride;
    items *= static_cast<double>(ceil_div(box[a], tile.size[a] * stride));
    positions *= tile.size[a];
    phases *= static_cast<double>(std::min(stride, box[a]));
    if (a < 2 && cuts_items(tile.way)) shares = phases;
  }
  if (items >= 1.0 * most_cut_rounds * device.multiprocessors) shares = 1;
  const double blocks = tile.blocks[0] * tile.blocks[1] * tile.blocks[2];
  const double products = g.tap_count() * steps_of(g) * blocks * block_clocks(tile.way, g.columns);
  const double passes = tile.resident ? 1 : std::ceil(phases / joint_of(tile.way));
  const double stage = tile.stage_tiles * g.columns * g.row_bytes;
  const double weights = tile.all_weights ? 0
                                          : static_cast<double>(g.tap_count()) * g.chunks * g.columns * g.row_bytes /
                                                std::min(weight_rate, (tile.stages - 1) * stage / weight_latency);
  const double halo = halo_clocks(g, tile) * passes;
  const double rate = tile.way == Way::twin ? twin_rate : result_rate;
  const double results = tile.way == Way::wide ? staging_clocks : positions * phases * g.columns / rate;
  const double outputs = static_cast<double>(images) * static_cast<double>(volume(box)) * g.out_channels;
  const double there = outputs / std::max(items, 1.0), run = run_of(g, tile, box[2]);  // of a tile
  const double stores = piece_clocks(g, tile, there, run);
  const double writers = tile.way == Way::wide ? there / run * (writer_clocks + run * g.element / writer_rate) : 0;
  // The first tile's halo, or its first chunk, comes before its products.
  const bool one = items * shares <= device.multiprocessors;
  const bool overlaps = tile.slots > g.chunks || !tile.resident;
  const double ahead = !one ? 0 : tile.resident ? halo : halo / (g.chunks * passes);
  const double all = products + weights + halo + writers;
  const double longest = overlaps && !(one && tile.resident) ? std::max({products, weights, halo, writers}) + ahead
                                                             : std::max({products, weights, writers}) + halo;
  // What runs at the same time is in its way a little.
  const double before = longest + 0.1 * (all - longest);
  const auto item = [&] {
    if (tile.way == Way::rows) return before + std::max(results, stores);  // all consumers wait for each other
    return std::max(before + results, stores) + 0.1 * std::min(before + results, stores);
  };
  // Runs begin in the middle of lines of 128 bytes, where other tiles begin with them.
  const double lines = tile.run && !g.ragged ? 1.03 : 1;
  return lines * std::ceil(items * shares / device.multiprocessors) / shares * item() / device.clock;
}

// Of a tile whose positions are known: the rest. The next one's halo comes early, or there is more room for weights.
Tile with_buffers(const Geometry& g, Tile tile, const DeviceProperties& device) {
  Tile single = tile;
  for (const auto& [halo_tiles, to] : {std::pair{2, &tile}, std::pair{1, &single}}) {
    place_buffers(g, halo_tiles, *to);
    if (to->rejection.empty()) to->seconds = seconds_of(g, *to, g.batch, g.output, device);
  }
  return !single.rejection.empty() || (tile.rejection.empty() && tile.seconds <= single.seconds) ? tile : single;
}

Tile tile_of(const Geometry& g, Way way, int group_axis, const std::array<int, 3>& blocks,
             const DeviceProperties& device) {
  Tile tile;
  tile.way = way;
  tile.group_axis = group_axis;
  tile.blocks = blocks;
  std::int64_t rows = 1;
  for (int a = 0; a < 3; ++a) {
    const auto i = static_cast<std::size_t>(a);
    // Of twins, groups take turns: two have 16 neighbours.
    const int along_w = way == Way::twin ? 16 : 8;
    tile.size[i] = blocks[i] * (a == group_axis ? positions_of(way) / along_w : 1) * (a == 2 ? along_w : 1);
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

// An axis that tiles can march along.
bool marches(const TapAxis& axis) { return axis.stride == 1 && axis.kernel == joined_taps && axis.dilation == 1; }

// Whether they do for this convolution, and the order of axes with that axis first.
bool march_order(const Geometry& g, std::array<std::size_t, 3>& order) {
  for (const TapAxis& axis : g.taps)
    if (axis.stride != 1) return false;
  if (g.bands > 1 || !can_march(g.columns) || (!marches(g.taps[0]) && (g.taps[0].kernel > 1 || !marches(g.taps[1]))))
    return false;
  if (!marches(g.taps[0])) order = {1, 0, 2};
  return true;
}

// Of filling one plane. Threads have 8 channels of a few rows under way, and others while they store these: planes.cuh.
double plane_clocks(const Geometry& g, const Tile& tile) {
  const double all = halo_clocks(g, tile);
  const int most = (blocks_of(Way::march) + 1) * team_of(Way::march).producers * group_threads / 2;
  if (tile.halo_rows > most) return all;
  const double groups = steps_of(g) * step_bytes / g.operand / group_channels / 2;
  return std::max(std::ceil(groups) * load_latency / 2, sector_clocks(g, tile.halo_rows, tile.halo[2]));
}

double march_seconds(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                     const DeviceProperties& device) {
  const double taps = g.tap_count() / joined_taps, positions = tile.size[1] * tile.size[2];
  const double products = taps * steps_of(g) * march_rows / block_rows * instruction_clocks(joined_taps * g.columns);
  const double plane =
      std::max(products, plane_clocks(g, tile)) + positions * g.columns / result_rate / team_of(Way::march).consumers;
  const auto planes = static_cast<double>(box[tile.order[0]]);
  double columns = static_cast<double>(images);
  for (const std::size_t a : {1U, 2U}) columns *= static_cast<double>(ceil_div(box[tile.order[a]], tile.size[a]));
  // Whole columns, and an equal part of those that are left. Each begins with a few planes more.
  const double each = std::ceil(columns * planes / device.multiprocessors);
  const double rounds = std::floor(columns / device.multiprocessors);
  const double begins = rounds + (columns > rounds * device.multiprocessors ? 2 : 0);
  return (each + begins * (joined_taps - 1)) * plane / device.clock;
}

// Of a tile whose positions are known: the rest.
Tile march_tile(const Geometry& g, Tile tile, const DeviceProperties& device) {
  tile.way = Way::march;
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
  const std::int64_t left = most_shared - fixed_bytes(g, tile.way) - std::int64_t{taps} * g.chunks * weights;
  tile.slot_bytes = round_up(static_cast<int>(rows) * g.row_bytes, 1024);
  tile.slots = static_cast<int>(std::clamp<std::int64_t>(left / tile.slot_bytes, 0, most_slots));
  if (left < 0 || tile.slots < 2) {
    tile.rejection = "weights and planes do not fit in shared memory";
    return tile;
  }
  tile.all_weights = true;
  tile.stage_tiles = taps * g.chunks;
  tile.shared = fixed_bytes(g, tile.way) + tile.slots * tile.slot_bytes + tile.stage_tiles * weights;
  tile.seconds = seconds_of(g, tile, g.batch, g.output, device);
  return tile;
}

// The rest of a run whose positions are columns.
Tile wide_run(const Geometry& g, Tile tile, const DeviceProperties& device) {
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

// Runs of lines: the output's in equal parts, and as many lines as there are rows for.
std::vector<Tile> run_tiles(const Geometry& g, Way way, const std::array<std::size_t, 3>& order,
                            const DeviceProperties& device) {
  std::vector<Tile> tiles;
  const int span = g.span[order[2]], rows = march_rows;
  static_assert(march_rows == team_of(Way::wide).consumers * positions_of(Way::wide));
  // Pairs of outputs are pairs where they are staged, of even lines.
  if (way == Way::wide && span % 2 != 0 && g.output[order[2]] % 2 == 0) return tiles;
  // Whole sectors where rows are, and pairs.
  const int whole = way == Way::march ? 1 : g.ragged ? 2 : sector_bytes / g.element;
  const std::int64_t height = g.output[order[1]], width = g.output[order[2]];
  for (std::int64_t parts = ceil_div(width, rows); parts <= std::min(width, ceil_div(width, rows) + most_parts);
       ++parts) {
    Tile tile;
    tile.way = way;
    tile.run = true;
    tile.order = order;
    tile.group_axis = 2;
    tile.blocks = {1, 1, rows / positions_of(way)};
    const std::int64_t along_w = ceil_div(ceil_div(width, parts), whole) * whole;
    const std::int64_t most = (rows + span) / (along_w + span);
    tile.size = {1, static_cast<int>(ceil_div(height, ceil_div(height, most))), static_cast<int>(along_w)};
    tile = way == Way::march ? march_tile(g, tile, device) : wide_run(g, tile, device);
    if (tile.rejection.empty() && (tiles.empty() || tiles.back().size != tile.size)) tiles.push_back(tile);
  }
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.seconds < b.seconds; });
  if (tiles.size() > most_runs) tiles.resize(most_runs);
  return tiles;
}

std::vector<Tile> march_tiles(const Geometry& g, const DeviceProperties& device) {
  std::array<std::size_t, 3> order{0, 1, 2};
  std::vector<Tile> tiles;
  if (!march_order(g, order)) return tiles;
  tiles = run_tiles(g, Way::march, order, device);
  const int blocks = march_rows / block_rows;
  for (const int axis : {1, 2})
    for (int h = 1; h <= blocks; h *= 2) {
      Tile tile;
      tile.order = order;
      tile.group_axis = axis;
      tile.blocks = {1, h, blocks / h};
      for (const int a : {1, 2})
        tile.size[static_cast<std::size_t>(a)] =
            tile.blocks[static_cast<std::size_t>(a)] * (a == axis ? 8 : 1) * (a == 2 ? 8 : 1);
      tiles.push_back(march_tile(g, tile, device));
    }
  return tiles;
}

// Rows of 64 bytes where those of 128 would be much emptier.
void choose_rows(Geometry& g) {
  const auto bytes_in = [&](std::int64_t row) { return ceil_div(std::int64_t{g.in_channels} * g.operand, row) * row; };
  set_rows(g, 5 * bytes_in(64) <= 4 * bytes_in(128) ? 64 : 128);
}

}  // namespace

double seconds_of(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                  const DeviceProperties& device) {
  return (tile.way == Way::march ? march_seconds : tile_seconds)(g, tile, images, box, device);
}

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
  const int channels = bytes / g.operand, step = step_bytes / g.operand;
  g.row_bytes = bytes;
  g.chunks = (g.in_channels - 1) / channels + 1;
  g.last_steps = (g.in_channels - (g.chunks - 1) * channels - 1) / step + 1;
}

Geometry halved(Geometry g) {
  g.operand = 2;
  choose_rows(g);
  return g;
}

namespace {

bool is_norm(const Step& step) {
  const Op* const op = std::get_if<Op>(&step.what);
  const auto* const norm = op == nullptr ? nullptr : std::get_if<ops::LayerNorm>(op);
  return norm != nullptr && norm->channels;
}

}  // namespace

bool has_norm(const Program& program) { return std::ranges::any_of(program.steps, is_norm); }
bool begins_with_norm(const Program& program) { return !program.steps.empty() && is_norm(program.steps.front()); }

std::string describe(const Program& program, Geometry& g) {
  const Convolution& c = program.convolution;
  const Descriptor& asked = *program.asked;
  if (asked.dtype == CONVT_F64) return "computes in f32";
  if (asked.dtype == CONVT_F32 && asked.precision != CONVT_FLOAT32_TF32) return "f32 needs precision=tf32 here";
  if (asked.dtype != CONVT_F32 && program.kernel_change.any())
    return "the rewritten kernel is not in the tensors' dtype";
  if (c.groups != 1) return "takes one group of channels";
  if (std::max({c.in_channels, c.out_channels, asked.input.batch}) > most_sizes)
    return "there are over 2^24 channels or images";
  g.element = g.operand = static_cast<int>(size_of(asked.dtype));
  std::int64_t taps = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t dilation = c.kernel[a] == 1 ? 1 : c.dilation[a];
    if (c.stride[a] > most_stride) return fmt::format("takes strides up to {}", most_stride);
    if (std::max(dilation, c.kernel[a]) > most_sizes) return "the kernel is too large";
    taps *= c.kernel[a];
    if (taps > most_taps) return fmt::format("takes kernels of up to {} taps", most_taps);
    g.taps[a] = tap_axis(c.kernel[a], c.stride[a], dilation);
    std::int64_t span = 0;
    for (std::int64_t lead = 0; lead < c.stride[a]; ++lead) {
      const Reach reach = reach_of(g.taps[a], lead);
      span = std::max(span, reach.last - reach.first);
    }
    if (span > most_shared) return "the taps reach too far";
    g.span[a] = static_cast<int>(span);
  }
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
  set_columns(g, has_norm(program));
  g.fours = c.out_channels % 8 == 0 && g.output[2] % 4 == 0 && asked.output_layout == CONVT_CHANNELS_FIRST;
  const bool direct = passes.size() == 1 && asked.output.space == g.output && (g.bands == 1 || !has_norm(program));
  g.ragged = direct && asked.output_layout == CONVT_CHANNELS_FIRST && g.output[2] * g.element % sector_bytes != 0;
  return "";
}

std::string Tile::print() const {
  return fmt::format("{}{}{}",
                     way == Way::march  ? "m"
                     : way == Way::wide ? "w"
                     : way == Way::deep ? "p"
                     : way == Way::twin ? "t"
                     : way == Way::rows ? "r"
                                        : "",
                     run ? 'r' : axis_letters[static_cast<std::size_t>(group_axis)], fmt::join(size, "x"));
}

std::vector<Tile> tiles_of(const Geometry& g, Way way, const DeviceProperties& device) {
  if (way == Way::march) return march_tiles(g, device);
  // Of few chunks, only where there is no other way for pairs of phases.
  const bool few = g.chunks == 1 && can_pair(g.columns);
  if (way == Way::deep && (few || g.taps[2].stride == 1 || !can_deepen(g.columns))) return {};
  if (way == Way::paired && !can_pair(g.columns)) return {};
  if (way == Way::wide && (g.columns != wide_channels || g.taps[0].stride * g.taps[1].stride * g.taps[2].stride != 1))
    return {};
  const bool twins = can_twin(g.columns, g.operand) && g.row_bytes == 64 && g.taps[2].stride == 2 && g.fours;
  if (way == Way::twin && !twins) return {};
  if (way == Way::rows && (!can_row(g.columns) || g.taps[2].stride != 2 || !g.ragged)) return {};
  const int blocks = team_of(way, g.columns).consumers * blocks_of(way, g.columns);
  std::vector<Tile> tiles;
  if (way == Way::wide) tiles = run_tiles(g, way, {0, 1, 2}, device);
  for (const int axis : {1, 0, 2}) {  // of equals the first is taken, and measured ones were faster in this order
    if (way == Way::twin && axis != 1) continue;
    for (int d = 1; d <= blocks; d *= 2)
      for (int h = 1; d * h <= blocks; h *= 2) tiles.push_back(tile_of(g, way, axis, {d, h, blocks / (d * h)}, device));
  }
  return tiles;
}

}  // namespace convt::core::cuda::sm90
