// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/tables.hpp"

#include <algorithm>

namespace convt::core::cuda::sm90 {
namespace {

// A phase of an axis, `after` phases after phase 0 of position 0.
struct AxisPhase {
  int taps, before;  // before: taps of the phases that are packed before it
  int input;         // read by position 0 through the first tap, from the halo tile's first input on
};
AxisPhase axis_phase(const ConvAxis& axis, int stride, int after, bool joined) {
  const int phase = after % stride, wrapped = after / stride;
  const PhaseTaps taps = axis.taps.taps(phase);
  if (joined) return {1, 0, 0};
  int before = 0;
  for (int r = 0; r < phase; ++r) before += static_cast<int>(axis.taps.taps(r).count);
  return {static_cast<int>(taps.count), before, wrapped - axis.first - static_cast<int>(taps.first_shift)};
}

}  // namespace

void fill_phases(const PhaseWindow& window, const std::array<int, 3>& leads, bool joined, ConvParams& p) {
  const int units = p.row_bytes / 16, line = p.line_rows * units, plane = p.axis[1].halo * line;
  const auto step = [&](int a) { return -static_cast<int>(p.axis[a].taps.shift_step); };
  for (int a = 0; a < 3; ++a) p.axis_phases[a] = std::min(p.axis[a].stride, p.axis[a].size);
  p.tap_step = step(2) * units;
  Phase* to = p.phases;
  for (int d = 0; d < p.axis_phases[0]; ++d)
    for (int h = 0; h < p.axis_phases[1]; ++h)
      for (int w = 0; w < p.axis_phases[2]; ++w) {
        const auto along_axis = [&](std::size_t a, int number) {
          return axis_phase(p.axis[a], window.stride[a], leads[a] + window.first[a] + number, a == 0 && joined);
        };
        const AxisPhase along[3] = {along_axis(0, d), along_axis(1, h), along_axis(2, w)};
        Phase c{.taps = 1, .along_h = along[1].taps, .along_w = along[2].taps, .bits = phase_bits(d, h, w)};
        int inner = p.taps;  // taps of the inner axes
        for (int a = 0; a < 3; ++a) {
          inner /= a == 0 && joined ? 1 : static_cast<int>(p.axis[a].taps.kernel);
          c.first_tap += c.taps * along[a].before * inner;
          c.taps *= along[a].taps;
        }
        c.weights = p.all_weights ? c.first_tap * p.chunks * p.tile_units : 0;
        c.offset = along[0].input * plane + along[1].input * line + along[2].input * units;
        c.line = step(1) * line - p.tap_step * c.along_w;
        c.plane = step(0) * plane - step(1) * line * c.along_h;
        c.result = d * p.to.step.d + h * p.to.step.h + w * p.to.step.w;
        *to++ = c;
      }
  p.phase_count = static_cast<int>(to - p.phases);
  const bool any = std::any_of(p.phases, to, [](const Phase& c) { return c.taps > 0; });
  if (!p.resident && !any) {  // nothing is multiplied, but producers still announce work tiles
    p.resident = true;
    p.chunks = 1;
  }
}

void list_taps(ConvParams& p, int joint) {
  const auto has_taps = [](const Phase& c) { return c.taps > 0; };
  const bool takes_short = p.chunks == 1 && p.resident && (p.last_steps == 2 || p.last_steps == 4) &&
                           p.taps <= most_tap_offsets && p.axis_phases[2] % joint == 0 &&
                           std::all_of(p.phases, p.phases + p.phase_count, has_taps);
  if (!takes_short) return;
  if (p.all_weights)
    p.variant = p.last_steps == 2 ? MainloopVariant::two_steps_resident : MainloopVariant::four_steps_resident;
  else if (std::all_of(p.phases, p.phases + p.phase_count, [&](const Phase& c) {
             return p.weight_stage_tiles % 2 == 0 && c.taps % p.weight_stage_tiles == 0;
           }))
    p.variant =
        p.last_steps == 2 ? MainloopVariant::two_steps_streamed_whole : MainloopVariant::four_steps_streamed_whole;
  else
    p.variant = p.last_steps == 2 ? MainloopVariant::two_steps_streamed : MainloopVariant::four_steps_streamed;
  int listed = 0;
  for (int i = 0; i < p.phase_count; ++i) {
    Phase& c = p.phases[i];
    c.listed = listed;
    int offset = c.offset;
    for (int tap = 1; tap <= c.taps; ++tap) {
      p.tap_offsets[listed++] = offset;
      const bool line = tap % c.along_w == 0, plane = tap % (c.along_w * c.along_h) == 0;
      offset += p.tap_step + (line ? c.line : 0) + (plane ? c.plane : 0);
    }
  }
}

bool list_folded_taps(ConvParams& p) {
  if (p.taps + 2 * (p.phase_count + 1) > most_tap_offsets) return false;
  int offsets[most_tap_offsets] = {}, at = 0;
  for (const Phase* c = p.phases; c < p.phases + p.phase_count; ++c) {
    offsets[at++] = c->taps;
    offsets[at++] = c->weights;
    for (int tap = 0; tap < c->taps; ++tap) offsets[at++] = p.tap_offsets[c->listed + tap];
  }
  std::ranges::copy(offsets, p.tap_offsets);
  return true;
}

std::int64_t split_work_tiles(ConvParams& p, bool splits, int multiprocessors) {
  const int together = phases_together(p.axis_phases[2], 1.0 * p.work_tiles * p.phase_count, multiprocessors);
  // Producers announce a partial tile with its halo.
  for (int number = 0; splits && number < p.phase_count; number += together) {
    int taps = 0;
    for (int i = 0; i < together; ++i) taps += p.phases[number + i].taps;
    splits = p.resident || taps > 0;
  }
  p.partial_phases = splits ? together : p.phase_count;
  p.tile_partials = p.phase_count / p.partial_phases;
  return std::int64_t{p.work_tiles} * p.tile_partials;
}

void assign_work_tiles(ConvParams& p, int blocks, bool rotates) {
  p.whole_each = p.work_tiles / blocks;
  p.whole_work_tiles = p.whole_each * blocks;
  const int partials = (p.work_tiles - p.whole_work_tiles) * p.tile_partials;
  p.partials = partials / blocks;
  p.more_partials = partials % blocks;
  p.grid = blocks;
  p.rotates = rotates;
  for (const int wraps : {0, 1}) {
    const int step = wraps == 1 ? 1 : blocks + (rotates ? 1 : 0);
    p.band_steps[wraps] = step % p.bands;
    for (const int over : {0, 1}) {
      WorkStep& to = p.work_steps[wraps][over];
      int tiles = step / p.bands + over;
      for (int a = 2; a >= 0; --a) {
        to.tile[a] = tiles % p.axis[a].tiles;
        tiles /= p.axis[a].tiles;
      }
      to.image = tiles;
    }
  }
}

TileAssignment assignment_of(const ConvParams& p, bool slides) {
  TileAssignment assignment{.flags = p.range_flags,
                            .grid = p.grid,
                            .work_tiles = p.work_tiles,
                            .whole_work_tiles = p.whole_work_tiles,
                            .whole_each = p.whole_each,
                            .tile_partials = p.tile_partials,
                            .partials = p.partials,
                            .more_partials = p.more_partials,
                            .rotates = p.rotates,
                            .planes = slides ? p.axis[0].size : 0,
                            .bands = p.bands};
  for (int a = 0; a < 3; ++a) {
    assignment.tiles[a] = p.axis[a].tiles;
    assignment.extent[a] = p.axis[a].tile * p.axis[a].stride;
  }
  return assignment;
}

ResultSteps result_steps(const ConvParams& p, const std::array<int, 3>& strides, int columns) {
  ResultSteps steps;
  const std::int64_t elements[3] = {p.to.step.d, p.to.step.h, p.to.step.w};
  std::int64_t group = 0;
  for (int a = 0; a < 3; ++a) {
    const std::int64_t position = elements[a] * strides[static_cast<std::size_t>(a)];
    steps.tile[a] = p.axis[a].tile * position;
    group += p.group_step[a] * position;
    steps.position = position;  // of w, the last
    for (int b = 0; b < p.m_tiles; ++b) steps.m_tile[b] += p.origin[b][a] * position;
  }
  steps.band = columns * p.to.step.c;
  steps.group = static_cast<std::uint32_t>(group);
  steps.channel = static_cast<std::uint32_t>(p.to.step.c);
  steps.neighbour = static_cast<std::uint32_t>(p.to.step.w);
  return steps;
}

int missing_everywhere(const ConvParams& p) {
  int missing = 0;
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    if (axis.size % (axis.tile * axis.stride) != 0) return 0;
    missing |= (8 - axis.stride) << 4 * a;
  }
  return missing << 16 | missing;
}

}  // namespace convt::core::cuda::sm90
