// SPDX-License-Identifier: Apache-2.0
#include "cpu/blocking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/division.hpp"

namespace convt::core::cpu {
namespace {

// The model's machine: a core with 1 MiB of second-level cache that reads 16 bytes a cycle from it where it misses the
// first, and 5 from memory shared with other cores; two multipliers, two loads and one store per cycle.
constexpr double cache_bytes = 1 << 20;
constexpr double far_bytes_per_cycle = 5, input_bytes_per_cycle = 6;
// Tiles whose sums are joined are judged as if this many threads shared the items, whatever the number really is.
constexpr double nominal_threads = 8;
// Packing: a kernel packed beforehand is written, and read again, far away.
constexpr double pack_bytes_per_cycle = 1.4, late_pack_bytes_per_cycle = 2;
// Waking other threads up.
constexpr double wake_cycles = 5000;
// A call of the microkernel, beyond its products.
constexpr double call_cycles = 30;
// Reading, storing and the chain, per vector of elements; a row costs more than its elements,
// and a plane more than its rows.
constexpr double vector_cycles = 3, row_cycles = 8, plane_cycles = 25, element_cycles = 4;
// Strides up to this one have vector code to interleave phases that are not merged.
constexpr std::int64_t most_interleaved = 4;
// Elements of a patch that 32-bit offsets can reach.
constexpr double most_elements = 1 << 30;
// Of the cache, for a panel and for a bundle of packed weights beside it.
constexpr double panel_share = 0.3, patch_share = 0.75, bundle_share = 0.1;

// Cycles of one product: `rows` of one class, in blocks as Convolver cuts them, over so many vectors.
double product_cycles(const KernelShape& k, double rows, double depth, double vectors) {
  const double blocks = std::ceil(rows / k.most_rows);
  const int block_rows = std::min(static_cast<int>(std::ceil(rows / blocks)), k.most_rows);
  const int most = k.most_vectors[block_rows];
  const auto step = [&](int v) {
    // Multiply-adds, broadcasts, loads, prefetches and the loop's own instructions: measured, 3.3 of them per cycle.
    const double instructions = block_rows * v + block_rows + 2 * v + 5;
    return std::max({0.5 * block_rows * v, instructions / 3.3, 4.0});
  };
  double full = std::floor(vectors / most);
  // Of more vectors than a double counts, what is left is nothing that matters.
  int left = static_cast<int>(std::clamp<double>(vectors - full * most, 0, most));
  double cycles = 0;
  if (left == 1 && full > 0) {  // as two halves
    full -= 1;
    cycles += depth * step((most + 1) / 2) + call_cycles;
    left = (most + 1) - (most + 1) / 2;
  }
  if (left > 0) cycles += depth * step(left) + call_cycles;
  return blocks * (cycles + full * (depth * step(most) + call_cycles));
}

// One way to merge phases. The classes of an axis that have as many taps and phases cost the same: there can be
// thousands of them, of one or two kinds.
struct Merging {
  struct Kind {
    std::int64_t taps, phases;
    double count;  // of classes
  };
  unsigned mask = 0;
  Phases phases;
  std::array<std::vector<Kind>, 3> kinds;
  bool even_rows = true;  // all classes of W have as many phases, as the direct way needs

  Merging(const Convolution& convolution, unsigned merged) : mask(merged), phases(phases_of(convolution, merged)) {
    for (std::size_t a = 0; a < 3; ++a)
      for (const AxisClass& one : phases.axis[a].classes) {
        const auto taps = static_cast<std::int64_t>(one.shifts.size());
        const auto count = static_cast<std::int64_t>(one.phases.size());
        const auto same = std::find_if(kinds[a].begin(), kinds[a].end(),
                                       [&](const Kind& kind) { return kind.taps == taps && kind.phases == count; });
        if (same != kinds[a].end())
          ++same->count;
        else
          kinds[a].push_back({taps, count, 1});
      }
    for (const Kind& kind : kinds[2]) even_rows &= kind.phases == kinds[2].front().phases;
  }
};

struct Model {
  const Program& program;
  const Pass& pass;
  KernelShape kernels;
  std::int64_t together;  // channels that must stay in one tile
  double threads;         // that share the items
  std::vector<Merging> mergings;
  bool one_tap = true;   // of every class
  bool in_place = true;  // kernel = stride: the patch is the panel of all classes

  // One tile's sizes.
  struct Sizes {
    Axes conv{}, positions{}, extent{};
    double tiles = 1, conv_pixels = 1;
  };

  Sizes measure(const Axes& tile) const {
    Sizes sizes;
    const Phases& merged = mergings.back().phases;  // the fewest classes
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t all = pass.out.space[a], count = ceil_div(all, tile[a]);
      const std::int64_t index = count > 2 ? 1 : 0;  // one that is not at an edge, if there is
      const Interval out{index * tile[a], std::min((index + 1) * tile[a], all)};
      const Interval conv = walk_back(program, pass, a, out).front();
      sizes.conv[a] = conv.size();
      sizes.positions[a] = merged.axis[a].positions(conv).size();
      sizes.extent[a] = merged.axis[a].inputs(conv).size();
      // The last one can be smaller, and costs a little more than its share.
      const std::int64_t left = all % tile[a];
      const double share = static_cast<double>(left) / static_cast<double>(tile[a]);
      sizes.tiles *= static_cast<double>(all / tile[a]) + (left > 0 ? 0.2 + 0.8 * share : 0);
      sizes.conv_pixels *= static_cast<double>(conv.size());
    }
    return sizes;
  }

  // Neither much too large for the cache nor so small that it is all overhead.
  bool worth_a_look(const Sizes& sizes) const {
    const double values = static_cast<double>(pass.in.channels) * sizes.conv_pixels;
    const double inputs =
        static_cast<double>(program.convolution.in_channels) * static_cast<double>(volume(sizes.extent));
    const double bytes = std::max(values, inputs) * static_cast<double>(kernels.element);
    return bytes < 4 * cache_bytes && bytes > cache_bytes / 32;
  }

  // Input channels of a panel that stays in cache while rows of weights pass by.
  std::int64_t chunk(const Cut& cut, const Sizes& sizes) const {
    std::int64_t taps = 1;
    for (const auto& kinds : mergings.front().kinds)
      taps *= std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
                return a.taps < b.taps;
              })->taps;
    const std::int64_t run = capped_product({volume(sizes.positions), cut.blocking.images, taps});
    const auto room = static_cast<std::int64_t>((in_place ? patch_share : panel_share) * cache_bytes) / kernels.element;
    return std::clamp<std::int64_t>(room / std::max<std::int64_t>(run, 1), 1,
                                    program.convolution.in_channels / program.convolution.groups);
  }

  double items(const Cut& cut, const Sizes& sizes) const {
    const auto images = static_cast<double>(cut.blocking.images);
    return std::max(1.0, sizes.tiles * std::ceil(static_cast<double>(pass.in.batch) / images));
  }

  // Whether a few output channels at a time can go through all classes: nothing is gathered again for each of them.
  bool bundled(const Cut& cut, const Sizes& sizes) const {
    const Convolution& c = program.convolution;
    return c.groups == 1 && (!cut.blocking.panel || (in_place && chunk(cut, sizes) == c.in_channels));
  }
  // Bytes of the weights of an output channel, and the channels of a bundle.
  std::int64_t channel_weights() const {
    return capped_product({ceil_div(program.kernel_count, program.convolution.out_channels), kernels.element});
  }
  std::int64_t bundle() const {
    const auto room = static_cast<std::int64_t>(bundle_share * cache_bytes);
    const std::int64_t block = capped_product({channel_weights(), kernels.most_rows});
    return std::max<std::int64_t>(room / block, 1) * kernels.most_rows;
  }
  double bundle_bytes() const { return static_cast<double>(bundle()) * static_cast<double>(channel_weights()); }
  // Weights that one item alone uses are packed by it.
  bool packs_late(const Cut& cut, const Sizes& sizes) const {
    const bool fits = bundle_bytes() <= cache_bytes / 2;
    return fits && bundled(cut, sizes) && items(cut, sizes) <= 1;
  }

  // Of one class: its products, and the way of its inputs and outputs.
  double class_cycles(const Cut& cut, const std::array<const Merging::Kind*, 3>& kinds, const Sizes& sizes) const {
    const Convolution& c = program.convolution;
    const auto images = static_cast<double>(cut.blocking.images);
    double depth = static_cast<double>(c.in_channels / c.groups), rows = static_cast<double>(c.out_channels / c.groups);
    Axes q{};
    for (std::size_t a = 0; a < 3; ++a) {
      depth *= static_cast<double>(kinds[a]->taps);
      rows *= static_cast<double>(kinds[a]->phases);
      // Positions: those of all phases, or about a phase's share.
      q[a] = kinds[a]->phases > 1 ? sizes.positions[a] : ceil_div(sizes.conv[a], c.stride[a]);
    }
    if (cut.blocking.panel) {
      const double runs = std::ceil(images * static_cast<double>(volume(q)) / kernels.lanes);
      const double copies = in_place ? 0
                                     : depth * images * static_cast<double>(q[0]) * static_cast<double>(q[1]) *
                                           (2 + 2 * std::ceil(static_cast<double>(q[2]) / kernels.lanes));
      const double stores = rows * (runs * kernels.lanes * 1.2 + images * static_cast<double>(q[0]) * plane_cycles);
      return product_cycles(kernels, rows, depth, runs) + copies + stores;
    }
    const std::int64_t along = capped_sum({capped_product({q[1] - 1, sizes.extent[2]}), q[2]});
    const std::int64_t by_row = capped_product({q[1], ceil_div(q[2], kernels.lanes)});
    const std::int64_t plane = std::min(ceil_div(along, kernels.lanes), by_row);
    // More phases of W than a block has rows are stored one by one.
    const bool scattered = kinds[2]->phases > kernels.most_rows;
    const double each_row = row_cycles + (scattered ? element_cycles * static_cast<double>(q[2]) : 0);
    // Some planes at a time, as Convolver has them.
    const std::int64_t run = direct_run(q[0], capped_product({plane, kernels.lanes, kernels.element}));
    return static_cast<double>(q[0]) / static_cast<double>(run) *
               product_cycles(kernels, rows, depth, static_cast<double>(run) * static_cast<double>(plane)) +
           rows * static_cast<double>(q[0]) * (plane_cycles + static_cast<double>(q[1]) * each_row);
  }

  double convolution_cycles(const Cut& cut, const Merging& merging, const Sizes& sizes) const {
    const Convolution& c = program.convolution;
    const auto groups = static_cast<double>(c.groups), images = static_cast<double>(cut.blocking.images);
    const double image = static_cast<double>(volume(sizes.extent));
    const auto element = static_cast<double>(kernels.element);
    double cycles = 0;
    for (const Merging::Kind& d : merging.kinds[0])
      for (const Merging::Kind& h : merging.kinds[1])
        for (const Merging::Kind& w : merging.kinds[2])
          cycles += groups * d.count * h.count * w.count * class_cycles(cut, {&d, &h, &w}, sizes);
    const double weights = static_cast<double>(program.kernel_count) * element;
    const double patch = static_cast<double>(c.in_channels) * images * image * element;
    // What every block of rows reads again; a panel is small, but all rows' sums wait beside it.
    double rows = static_cast<double>(c.out_channels / c.groups), run = images;
    for (std::size_t a = 0; a < 3; ++a) {
      rows *= static_cast<double>(merging.kinds[a].front().phases);
      run *= static_cast<double>(sizes.positions[a]);
    }
    const bool from_patch = !cut.blocking.panel || bundled(cut, sizes);
    double kept = from_patch ? patch : 0.4 * cache_bytes + rows * run * element;
    if (packs_late(cut, sizes)) kept += bundle_bytes();
    double slower = 0.15 * std::clamp((kept - cache_bytes) / cache_bytes, 0.0, 4.0);
    // A single tap reads something new in every step, more than half of the cache can give in time.
    if (from_patch && one_tap) slower += 0.3 * std::clamp((kept - 0.5 * cache_bytes) / cache_bytes, 0.0, 0.5);
    cycles *= 1 + slower;
    const double rows_read = static_cast<double>(c.in_channels) * images * static_cast<double>(sizes.extent[0]) *
                             static_cast<double>(sizes.extent[1]);
    cycles += rows_read * row_cycles + patch / input_bytes_per_cycle;
    cycles += patch / element / kernels.lanes * vector_cycles * static_cast<double>(program.prologue.size());
    if (weights > 0.5 * cache_bytes && !packs_late(cut, sizes)) cycles += 0.5 * weights / far_bytes_per_cycle;
    const double stored = images * static_cast<double>(c.out_channels) * sizes.conv_pixels;
    cycles += stored / kernels.lanes * vector_cycles;
    // Channels are padded to an odd number of cache lines.
    const double padded = static_cast<double>(c.in_channels) * (images * image + 128 / element);
    if (padded > most_elements) cycles = std::numeric_limits<double>::infinity();
    return cycles;
  }

  double cycles(Cut& cut, const Merging& merging, const Sizes& sizes) const {
    const double images = static_cast<double>(cut.blocking.images);
    const double steps = static_cast<double>(pass.end - pass.begin) + 1;
    const double values = images * static_cast<double>(pass.in.channels) * sizes.conv_pixels;
    double one = pass.source == Pass::Source::convolution ? convolution_cycles(cut, merging, sizes) : 0;
    const double bytes = values * static_cast<double>(kernels.element);
    const double slow = 1 + 2 * std::clamp((bytes - 0.4 * cache_bytes) / cache_bytes, 0.0, 2.0);
    one += values / kernels.lanes * vector_cycles * steps * slow;
    const double items = this->items(cut, sizes);
    const double splits = std::clamp(
        static_cast<double>(pass.in.channels) / std::max<double>(16, static_cast<double>(together)), 1.0, threads);
    const double shared = items * (items < threads ? splits : 1);
    const double rounds = std::ceil(shared / threads);
    cut.cycles = one * items;
    const double score = cut.cycles * std::sqrt(rounds * threads / shared) + (shared > 1 ? wake_cycles : 0);
    if (pass.source != Pass::Source::convolution) return score;
    const double packing = static_cast<double>(program.kernel_count) * static_cast<double>(kernels.element) /
                           (packs_late(cut, sizes) ? late_pack_bytes_per_cycle : pack_bytes_per_cycle);
    cut.cycles += packing;
    return score + packing;
  }
};

// Sizes of tiles worth a look on one axis: equal pieces, of whole strides where that makes a difference.
std::vector<std::int64_t> pieces(std::int64_t size, std::int64_t stride, bool whole) {
  std::vector<std::int64_t> result{size};
  if (whole) return result;
  for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096, 16384}) {
    std::int64_t piece = ceil_div(size, count);
    if (piece > stride) piece = ceil_div(piece, stride) * stride;
    if (piece < result.back()) result.push_back(piece);
  }
  return result;
}

// Channels of one item: all, or a share of them where there are fewer items than threads can take.
std::int64_t channels_of_item(const Model& model, bool panel, double items, std::size_t threads) {
  const Convolution& c = model.program.convolution;
  const std::int64_t all = model.pass.in.channels;
  std::int64_t unit = std::max<std::int64_t>(model.together, model.kernels.most_rows);
  if (c.groups > 1) {
    const std::int64_t outs = c.out_channels / c.groups;
    if (model.together % outs != 0 && outs % model.together != 0) return all;
    unit = std::max(model.together, outs);
  }
  if (unit % model.together != 0) unit = ceil_div(unit, model.together) * model.together;
  const std::int64_t units = ceil_div(all, unit);
  // Several items per thread even out their ends; but each reads its inputs, and gathers panels, for itself.
  const double wanted = (panel ? 1 : 3) * static_cast<double>(threads) / items;
  const auto splits = std::min(static_cast<std::int64_t>(std::ceil(wanted)), units);
  if (threads <= 1 || items >= 2 * static_cast<double>(threads) || splits <= 1) return all;
  return ceil_div(units, splits) * unit;
}

// Merging an axis's phases is worth a look where it fills rows, or where there are many phases.
bool may_merge(const Convolution& c, std::size_t axis, const KernelShape& kernels) {
  if (c.stride[axis] == 1) return false;
  return c.out_channels / c.groups < kernels.most_rows || c.stride[axis] > most_interleaved;
}

}  // namespace

Cut choose_cut(const Program& program, const Pass& pass, const KernelShape& kernels, std::size_t threads,
               bool whole_image) {
  const bool joins = pass.sink != Pass::Sink::output;
  Model model{
      program, pass, kernels, channels_together(program, pass), joins ? nominal_threads : static_cast<double>(threads),
      {}};
  const Convolution& c = program.convolution;
  for (std::size_t a = 0; a < 3; ++a) {
    model.one_tap &= c.kernel[a] <= c.stride[a] && (c.dilation[a] == 1 || c.kernel[a] == 1);
    model.in_place &=
        c.kernel[a] == c.stride[a] && c.padding[a] % c.stride[a] == 0 && program.conv.space[a] % c.stride[a] == 0;
  }
  model.in_place &= model.one_tap;
  const bool convolves = pass.source == Pass::Source::convolution;
  for (unsigned mask = 0; mask < 8; ++mask) {
    bool useful = true;
    for (std::size_t a = 0; a < 3; ++a) useful &= (mask >> a & 1U) == 0 || (convolves && may_merge(c, a, kernels));
    if (!useful) continue;
    model.mergings.emplace_back(c, mask);
    if (!convolves) break;
  }

  Cut best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](Cut cut, const Merging& merging, const Model::Sizes& sizes) {
    const double score = model.cycles(cut, merging, sizes);
    if (score < least || std::isinf(least)) {
      least = score;
      best = cut;
    }
  };
  const auto search = [&](bool selective) {
    for (const std::int64_t d : pieces(pass.out.space[0], c.stride[0], whole_image))
      for (const std::int64_t h : pieces(pass.out.space[1], c.stride[1], whole_image))
        for (const std::int64_t w : pieces(pass.out.space[2], c.stride[2], whole_image)) {
          Cut cut;
          cut.tile = {d, h, w};
          // Rows are cut last, and not to less than a vector: a tile of part of a row has more halo.
          if (w < pass.out.space[2] && (h > 4 * c.stride[1] || d > 4 * c.stride[0] || w < kernels.lanes * c.stride[2]))
            continue;
          const Model::Sizes sizes = model.measure(cut.tile);
          if (selective && !model.worth_a_look(sizes)) continue;
          for (const Merging& merging : model.mergings) {
            cut.blocking = Blocking{};
            cut.blocking.merged = merging.mask;
            if (merging.even_rows) consider(cut, merging, sizes);
            if (!convolves) continue;
            cut.blocking.panel = true;
            // Several small images make one run of a few blocks of positions.
            const std::int64_t batch = std::max<std::int64_t>(pass.in.batch, 1);
            if (cut.tile == pass.out.space) {
              const std::int64_t run = 20 * kernels.lanes, each = std::max<std::int64_t>(volume(sizes.positions), 1);
              cut.blocking.images = std::clamp<std::int64_t>(run / each, 1, batch);
            }
            consider(cut, merging, sizes);
            // All of them, if they fit: then an item packs its weights itself.
            if (cut.tile != pass.out.space || cut.blocking.images == batch) continue;
            cut.blocking.images = batch;
            if (model.packs_late(cut, sizes)) consider(cut, merging, sizes);
          }
        }
  };
  search(true);
  if (std::isinf(least)) search(false);

  const Model::Sizes sizes = model.measure(best.tile);
  Blocking& blocking = best.blocking;
  blocking.channels = channels_of_item(model, blocking.panel, model.items(best, sizes), threads);
  blocking.bundle = blocking.channels;
  if (blocking.panel) blocking.chunk = model.chunk(best, sizes);
  if (convolves && model.bundled(best, sizes)) {
    blocking.late = model.packs_late(best, sizes);
    blocking.bundle = std::min(blocking.channels, model.bundle());
  }
  return best;
}

}  // namespace convt::core::cpu
