// SPDX-License-Identifier: Apache-2.0
// Predicts the cost of a tile, in clocks of one multiprocessor. Rates were measured (docs/hopper-notes.md).
#include "cuda/sm90/host/cost.hpp"

#include <algorithm>
#include <cmath>

#include "base/division.hpp"
#include "cuda/sm90/host/tables.hpp"

namespace convt::core::cuda::sm90 {

double instruction_clocks(int columns) { return 1.4 * std::max(columns / 2.0, 16 + columns / 4.0); }

namespace {

// The products of one row tile and 32 bytes of its rows. Swapped operands leave producers and writers more of shared
// memory's rate.
double m_tile_clocks(const Config& config, int columns) {
  if (config.swaps()) return 1.3 * swapped_positions / 2.0 * columns / swapped_channels;
  return instruction_clocks(columns) *
         (config.is_k_heavy() || config.is_wide() ? 1.2 : 1);  // two warpgroups hide less than four
}

constexpr double load_latency = 1400;                 // of a load
constexpr double weight_latency = 1400;               // of a stage of weights, while all multiprocessors read them
constexpr double sector_rate = 32, weight_rate = 24;  // bytes per clock
constexpr double result_rate = 6, quad_rate = 6.5;    // sums per clock
constexpr double staging_clocks = 1000;               // a tile with swapped operands: waiting and staging
constexpr bool is_plain_single(const Config& config) { return config.is_single() && !config.is_wide(); }
// Loading one input, where only one phase uses it: beside products with 128 columns, and with fewer. 16-bit inputs are
// loaded in pairs.
constexpr double value_clocks(const Config& config, int element) {
  if (config.swaps()) return element == 4 ? 0.72 : 0.26;
  return !is_plain_single(config) ? 0 : element == 4 ? 1.15 : 0.48;
}
// Storing outputs that are contiguous in memory. writer: by writers. line: a line whose first and last sectors are
// partial. run: a few positions. apart: a few positions, phase by phase. half: half a sector.
constexpr double writer_clocks = 5, line_clocks = 20, run_clocks = 10, apart_clocks = 18, half_clocks = 5;
constexpr double launch_seconds = 3e-6;            // one more launch, with its incomplete last round
constexpr double run_rate = 18, writer_rate = 13;  // bytes per clock

// Loading the sectors of a box, whose lines begin anywhere in a sector.
double sector_clocks(const Geometry& g, int rows, int line) {
  return static_cast<double>(rows) / line * g.in_channels * (line * g.element + sector_bytes) / sector_rate;
}
// Loading a halo tile.
double halo_clocks(const Geometry& g, const Tile& tile) {
  const WarpRoles roles = roles_of(tile.config, g.columns);
  const double loads = tile.resident ? 32 : loads_of(roles);  // resident halos: the next halo's loads are issued early
  const int rows = tile.halo_rows, line = tile.halo[2],
            warps = roles.halo_warps(tile.config.all_producers_fill() && tile.all_weights);
  const double batches = rows / (32.0 * warps) * g.chunks * (g.row_bytes / g.operand()) / loads;
  const double values = 1.0 * rows * g.in_channels * value_clocks(tile.config, g.element);
  return std::max({std::ceil(batches) * load_latency, sector_clocks(g, rows, line), values});
}

double steps_of(const Geometry& g) { return ((g.chunks - 1.0) * g.row_steps() + g.last_steps) * (g.splits() ? 3 : 1); }

// The number of outputs along w that are stored at once.
double run_of(const Geometry& g, const Tile& tile, std::int64_t line) {
  const bool lines = tile.config.stores(StoreTraits::lines);
  const std::int64_t most = (lines ? tile.size[2] : 8) * std::min<std::int64_t>(tile.config.joint(), g.taps[2].stride);
  return static_cast<double>(line) / static_cast<double>(ceil_div(line, most));
}
// Storing outputs in partial sectors, if rows begin and end anywhere in a sector; else in half sectors.
double piece_clocks(const Geometry& g, const Tile& tile, double outputs, double run) {
  if (tile.config.swaps()) return 0;
  if (!g.ragged) return is_plain_single(tile.config) && 8 * g.element < sector_bytes ? outputs / run * half_clocks : 0;
  const bool pairs = g.taps[2].stride == 2 && g.output[2] % 2 == 0 && g.out_channels % 8 == 0;
  const bool apart = tile.config.joint() == 2 && !pairs;  // phases are stored one by one
  const double ends = tile.config.stores(StoreTraits::lines) ? line_clocks : apart ? apart_clocks : run_clocks;
  return outputs / run * (ends + run * g.element / run_rate);
}

Prediction predict_halo_tile(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                             const DeviceProperties& device) {
  double work_tiles = static_cast<double>(images) * g.bands, positions = 1, phases = 1, partials = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const auto stride = g.taps[a].stride;
    work_tiles *= static_cast<double>(ceil_div(box[a], tile.size[a] * stride));
    positions *= tile.size[a];
    phases *= static_cast<double>(std::min(stride, box[a]));
  }
  const int windows = g.windows.count();
  const auto row = static_cast<int>(std::min<std::int64_t>(g.windows.most[2], box[2]));
  if (tile.config.splits()) {
    const double each = std::max(phases / windows, 1.0);
    partials = std::max(each / phases_together(row, work_tiles * each, device.multiprocessors), 1.0);
  }
  if (work_tiles >= 1.0 * most_split_rounds * device.multiprocessors) partials = 1;
  const double m_tiles = tile.m_tiles[0] * tile.m_tiles[1] * tile.m_tiles[2];
  const double products = g.tap_count() * steps_of(g) * m_tiles * m_tile_clocks(tile.config, g.columns);
  const double passes = tile.resident ? windows : std::ceil(phases / tile.config.joint());
  const double stage = tile.weight_stage_tiles * g.columns * g.row_bytes;
  const double weights = tile.all_weights
                             ? 0
                             : static_cast<double>(g.tap_count()) * g.chunks * g.columns * g.row_bytes /
                                   std::min(weight_rate, (tile.weight_stages - 1) * stage / weight_latency);
  const double halo = halo_clocks(g, tile) * passes;
  const double rate = tile.config.duplicates() ? quad_rate : result_rate;
  const double chain = positions * phases * g.columns * g.chain_clocks;
  const double results = chain + (tile.config.swaps() ? staging_clocks : positions * phases * g.columns / rate);
  const double outputs = static_cast<double>(images) * static_cast<double>(volume(box)) * g.out_channels;
  const double stored = outputs / std::max(work_tiles, 1.0), run = run_of(g, tile, box[2]);  // stored: by a tile
  const double stores = piece_clocks(g, tile, stored, run);
  const double writers = tile.config.swaps() ? stored / run * (writer_clocks + run * g.element / writer_rate) : 0;
  // The halo of a block's first tile, or the first chunk of that halo, precedes all products.
  const bool one = work_tiles * partials <= device.multiprocessors;
  const bool overlaps = tile.halo_stages > g.chunks || !tile.resident;
  const double ahead = !one ? 0 : tile.resident ? halo : halo / (g.chunks * passes);
  const double all = products + weights + halo + writers;
  const double longest = overlaps && !(one && tile.resident) ? std::max({products, weights, halo, writers}) + ahead
                                                             : std::max({products, weights, writers}) + halo;
  // Parts that overlap slow each other down a little.
  const double before = longest + 0.1 * (all - longest);
  const auto work = [&] {
    if (tile.config.stores(StoreTraits::lines) && !tile.config.swaps())
      return before + std::max(results, stores);  // all consumers wait for each other
    return std::max(before + results, stores) + 0.1 * std::min(before + results, stores);
  };
  // Runs begin in the middle of 128-byte lines, other tiles at their beginning.
  const double lines = tile.run && !g.ragged ? 1.03 : 1;
  Prediction p;
  p.seconds = work();
  p.of[Prediction::products] = products;
  p.of[Prediction::chain] = chain;
  p.of[Prediction::loads] = std::max(halo, weights);
  p.of[Prediction::stores] = std::max(results - chain, stores) + writers;
  return lines * std::ceil(work_tiles * partials / device.multiprocessors) / partials / device.clock * p;
}

// Loading one plane. Threads load 8 channels of a few rows while they store others (loader/planes.cuh).
double plane_clocks(const Geometry& g, const Tile& tile) {
  const double all = halo_clocks(g, tile);
  const int most = (tile.config.m_tiles() + 1) * roles_of(tile.config).producers * group_threads / 2;
  if (tile.halo_rows > most) return all;
  const double groups = steps_of(g) * step_bytes / g.operand() / group_channels / 2;
  return std::max(std::ceil(groups) * load_latency / 2, sector_clocks(g, tile.halo_rows, tile.halo[2]));
}

Prediction predict_sliding(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                           const DeviceProperties& device) {
  const double taps = g.tap_count() / joined_taps, positions = tile.size[1] * tile.size[2];
  const double products = taps * steps_of(g) * sliding_rows / m_tile_rows * instruction_clocks(joined_taps * g.columns);
  const double loads = plane_clocks(g, tile), chain = positions * g.columns * g.chain_clocks;
  const double results = positions * g.columns / result_rate / roles_of(tile.config).consumers;
  const auto planes = static_cast<double>(box[tile.order[0]]);
  double columns = static_cast<double>(images);
  for (const std::size_t a : {1U, 2U}) columns *= static_cast<double>(ceil_div(box[tile.order[a]], tile.size[a]));
  // A block has whole tiles and an equal part of the tiles that are left. Each part begins with two extra planes.
  const double each = std::ceil(columns * planes / device.multiprocessors);
  const double rounds = std::floor(columns / device.multiprocessors);
  const double begins = rounds + (columns > rounds * device.multiprocessors ? 2 : 0);
  Prediction plane;
  plane.seconds = std::max(products, loads) + chain + results;
  plane.of[Prediction::products] = products;
  plane.of[Prediction::chain] = chain;
  plane.of[Prediction::loads] = loads;
  plane.of[Prediction::stores] = results;
  return (each + begins * (joined_taps - 1)) / device.clock * plane;
}

}  // namespace

Prediction predict_tile(const Geometry& g, const Tile& tile, std::int64_t images, const Axes& box,
                        const DeviceProperties& device) {
  Prediction p = (tile.config.slides() ? predict_sliding : predict_halo_tile)(g, tile, images, box, device);
  p.add(Prediction::launches, launch_seconds * (g.windows.count() - 1));
  return p;
}

}  // namespace convt::core::cuda::sm90
