// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "base/dtype.hpp"
#include "base/error.hpp"

namespace convt::core::cuda::sm90 {
namespace {

constexpr std::int64_t most_sizes = std::int64_t{1} << 24;  // of kernels, channels and shifts: far above what fits
constexpr int most_group_rows = 2047;                       // of a descriptor's 14 bits of 16 bytes
constexpr int stage_bytes = 16 << 10;
constexpr int least_stages = 2;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
int round_up(int value, int to) { return (value + to - 1) / to * to; }

int strip_bytes(int pixels, int columns) {
  return strip_shared<float>(pixels) + columns * (pixels + 1) * static_cast<int>(sizeof(float));
}

// Of a matrix instruction: as many as its columns take, and at least what its rows take to read.
double instruction_clocks(int columns) { return std::max(columns / 2.0, 16 + columns / 4.0); }

// Bytes behind halo tiles and weights: places of taps, and a strip of both warpgroups' blocks or lines of short chains.
int fixed_bytes(const Geometry& g, Way way) {
  const int chain = way == Way::strip ? strip_bytes(consumers * block_rows, g.columns)
                                      : (way == Way::folded ? 2 : 1) * lines_bytes(g.columns);
  return shared_slack + round_up(g.tap_count() * static_cast<int>(sizeof(int)), 16) + chain;
}

// Gives what is left of the shared memory to halo tiles first, then to weights.
void place_buffers(const Geometry& g, Tile& tile) {
  const int weights = g.columns * row_bytes;
  tile.stage_tiles = std::max(stage_bytes / weights, 1);
  const int stage = tile.stage_tiles * weights, left = most_shared - fixed_bytes(g, tile.way);
  tile.slot_bytes = round_up(tile.halo_rows * row_bytes, 1024);
  const int fit = (left - least_stages * stage) / tile.slot_bytes;
  tile.slots = std::min({fit, 2 * g.chunks, most_slots});
  tile.resident = tile.slots >= g.chunks;
  if (tile.slots < std::min(2, g.chunks)) {
    tile.rejection = "its halo does not fit in shared memory";
    return;
  }
  tile.stages = std::min((left - tile.slots * tile.slot_bytes) / stage, most_stages);
  tile.shared = fixed_bytes(g, tile.way) + tile.slots * tile.slot_bytes + tile.stages * stage;
}

// In clocks of one multiprocessor. Rates were measured (docs/hopper-notes.md).
void predict(const Geometry& g, const DeviceProperties& device, Tile& tile) {
  constexpr double latency = 1400;         // of a load that many wait for
  constexpr double weight_latency = 2800;  // of a stage of weights, which all multiprocessors read at once
  constexpr double sector = 32, sector_rate = 32, weight_rate = 24, result_rate = 8;  // bytes, bytes, sums per clock
  double items = static_cast<double>(g.batch) * g.bands, positions = 1, phases = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const auto stride = g.taps[a].stride;
    items *= static_cast<double>(ceil_div(g.output[a], tile.size[a] * stride));
    positions *= tile.size[a];
    phases *= static_cast<double>(std::min(stride, g.output[a]));
  }
  const double steps = (g.chunks - 1) * 4.0 + g.last_steps;
  const double products = g.tap_count() * steps * positions / block_rows * instruction_clocks(g.columns);
  const double stage = tile.stage_tiles * g.columns * row_bytes;
  const double weights = static_cast<double>(g.tap_count()) * g.chunks * g.columns * row_bytes /
                         std::min(weight_rate, (tile.stages - 1) * stage / weight_latency);
  // Each thread has 32 loads under way; lines begin anywhere in a sector.
  const double batches = std::ceil(tile.halo_rows / (32.0 * halo_warps)) * g.chunks * (4.0 / g.element);
  const double lines = static_cast<double>(tile.halo_rows) / tile.halo[2];
  const double sectors = lines * g.in_channels * (tile.halo[2] * g.element + sector) / sector_rate;
  const double halo = std::max(batches * latency, sectors) * (tile.resident ? 1 : phases);
  const double results = positions * phases * g.columns / result_rate;
  const bool overlaps = tile.slots > g.chunks || !tile.resident;
  const double item = (overlaps ? std::max({products, weights, halo}) : std::max(products, weights) + halo) + results;
  tile.seconds = std::ceil(items / device.multiprocessors) * item / device.clock;
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
    tile.size[i] = blocks[i] * (a == group_axis ? 8 : 1) * (a == 2 ? 8 : 1);
    tile.halo[i] = tile.size[i] + g.span[i];
    rows *= tile.halo[i];
  }
  const int group_rows = group_axis == 0 ? tile.halo[1] * tile.halo[2] : group_axis == 1 ? tile.halo[2] : 8;
  if (rows * row_bytes > most_shared || group_rows > most_group_rows) {
    tile.rejection = "its halo does not fit in shared memory";
    return tile;
  }
  tile.halo_rows = static_cast<int>(rows);
  place_buffers(g, tile);
  if (tile.rejection.empty()) predict(g, device, tile);
  return tile;
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
  g.element = static_cast<int>(size_of(asked.dtype));
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
  g.output = c.output;
  g.padding = c.padding;
  g.batch = asked.input.batch;
  g.in_channels = static_cast<int>(c.in_channels);
  g.out_channels = static_cast<int>(c.out_channels);
  const int channels = row_bytes / g.element, step = step_bytes / g.element;
  g.chunks = static_cast<int>(ceil_div(c.in_channels, channels));
  g.last_steps = static_cast<int>(ceil_div(c.in_channels - std::int64_t{g.chunks - 1} * channels, step));
  double least = 0;
  for (const int columns : all_columns) {
    const double cost = static_cast<double>(ceil_div(c.out_channels, columns)) * instruction_clocks(columns);
    if (least != 0 && cost >= least) continue;
    least = cost;
    g.columns = columns;
  }
  g.bands = static_cast<int>(ceil_div(c.out_channels, g.columns));
  return "";
}

std::string Tile::print() const {
  return fmt::format("{}{}", axis_letters[static_cast<std::size_t>(group_axis)], fmt::join(size, "x"));
}

std::vector<Tile> tiles_of(const Geometry& g, Way way, const DeviceProperties& device) {
  const int blocks = consumers * blocks_of(way);
  std::vector<Tile> tiles;
  for (int axis = 0; axis < 3; ++axis)
    for (int d = 1; d <= blocks; d *= 2)
      for (int h = 1; d * h <= blocks; h *= 2) tiles.push_back(tile_of(g, way, axis, {d, h, blocks / (d * h)}, device));
  return tiles;
}

}  // namespace convt::core::cuda::sm90
