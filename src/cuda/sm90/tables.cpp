// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/tables.hpp"

#include <algorithm>

namespace convt::core::cuda::sm90 {
namespace {

// The phases of an axis, counted from that of the box's first output.
struct AxisPhase {
  int taps, before;  // before: taps of the phases that are packed before it
  int input;         // that position 0 meets through the first tap, from the halo tile's first on
};
AxisPhase axis_phase(const ConvAxis& axis, int number, bool joined) {
  const int phase = (axis.lead + number) % axis.stride, wrapped = (axis.lead + number) / axis.stride;
  const PhaseTaps taps = axis.taps.taps(phase);
  if (joined) return {1, 0, 0};
  int before = 0;
  for (int r = 0; r < phase; ++r) before += static_cast<int>(axis.taps.taps(r).count);
  return {static_cast<int>(taps.count), before, wrapped - axis.first - static_cast<int>(taps.first_shift)};
}

}  // namespace

void place_classes(ConvParams& p, bool joined) {
  const int units = p.row_bytes / 16, line = p.line_rows * units, plane = p.axis[1].halo * line;
  const auto step = [&](int a) { return -static_cast<int>(p.axis[a].taps.shift_step); };
  for (int a = 0; a < 3; ++a) p.phases[a] = std::min(p.axis[a].stride, p.axis[a].size);
  p.tap_step = step(2) * units;
  Class* to = p.classes;
  for (int d = 0; d < p.phases[0]; ++d)
    for (int h = 0; h < p.phases[1]; ++h)
      for (int w = 0; w < p.phases[2]; ++w) {
        const AxisPhase along[3] = {axis_phase(p.axis[0], d, joined), axis_phase(p.axis[1], h, false),
                                    axis_phase(p.axis[2], w, false)};
        Class c{.taps = 1, .along_h = along[1].taps, .along_w = along[2].taps, .phase = phase_bits(d, h, w)};
        int behind = p.taps;  // taps of the axes behind one
        for (int a = 0; a < 3; ++a) {
          behind /= a == 0 && joined ? 1 : static_cast<int>(p.axis[a].taps.kernel);
          c.first += c.taps * along[a].before * behind;
          c.taps *= along[a].taps;
        }
        c.weights = p.all_weights ? c.first * p.chunks * p.tile_units : 0;
        c.place = along[0].input * plane + along[1].input * line + along[2].input * units;
        c.line = step(1) * line - p.tap_step * c.along_w;
        c.plane = step(0) * plane - step(1) * line * c.along_h;
        c.result = d * p.to.step.d + h * p.to.step.h + w * p.to.step.w;
        *to++ = c;
      }
  p.class_count = static_cast<int>(to - p.classes);
  const bool any = std::any_of(p.classes, to, [](const Class& c) { return c.taps > 0; });
  if (!p.resident && !any) {  // nothing is multiplied; but producers tell which items there are
    p.resident = true;
    p.chunks = 1;
  }
}

void place_taps(ConvParams& p, int joint) {
  const auto has_taps = [](const Class& c) { return c.taps > 0; };
  const bool takes_short = p.chunks == 1 && p.resident && (p.last_steps == 2 || p.last_steps == 4) &&
                           p.taps <= most_placed && p.phases[2] % joint == 0 &&
                           std::all_of(p.classes, p.classes + p.class_count, has_taps);
  if (!takes_short) return;
  if (p.all_weights)
    p.route = p.last_steps == 2 ? Route::two_steps_stay : Route::four_steps_stay;
  else if (std::all_of(p.classes, p.classes + p.class_count,
                       [&](const Class& c) { return p.stage_tiles % 2 == 0 && c.taps % p.stage_tiles == 0; }))
    p.route = p.last_steps == 2 ? Route::two_steps_whole : Route::four_steps_whole;
  else
    p.route = p.last_steps == 2 ? Route::two_steps : Route::four_steps;
  int listed = 0;
  for (int i = 0; i < p.class_count; ++i) {
    Class& c = p.classes[i];
    c.listed = listed;
    int place = c.place;
    for (int tap = 1; tap <= c.taps; ++tap) {
      p.places[listed++] = place;
      const bool line = tap % c.along_w == 0, plane = tap % (c.along_w * c.along_h) == 0;
      place += p.tap_step + (line ? c.line : 0) + (plane ? c.plane : 0);
    }
  }
}

bool place_pooled(ConvParams& p) {
  if (p.taps + 2 * (p.class_count + 1) > most_placed) return false;
  int places[most_placed] = {}, at = 0;
  for (const Class* c = p.classes; c < p.classes + p.class_count; ++c) {
    places[at++] = c->taps;
    places[at++] = c->weights;
    for (int tap = 0; tap < c->taps; ++tap) places[at++] = p.places[c->listed + tap];
  }
  std::ranges::copy(places, p.places);
  return true;
}

std::int64_t cut_items(ConvParams& p, bool cuts) {
  // Each share has a box, whose producers tell of it.
  for (int number = 0; cuts && number < p.class_count; number += p.phases[2]) {
    int taps = 0;
    for (int w = 0; w < p.phases[2]; ++w) taps += p.classes[number + w].taps;
    cuts = p.resident || taps > 0;
  }
  p.share_classes = cuts ? p.phases[2] : p.class_count;
  p.item_shares = p.class_count / p.share_classes;
  return std::int64_t{p.items} * p.item_shares;
}

void place_items(ConvParams& p, int blocks, bool turns) {
  p.whole_each = p.items / blocks;
  p.whole_items = p.whole_each * blocks;
  const int shares = (p.items - p.whole_items) * p.item_shares;
  p.shares = shares / blocks;
  p.more_shares = shares % blocks;
  p.grid = blocks;
  p.turns = turns;
  for (const int wraps : {0, 1}) {
    const int step = wraps == 1 ? 1 : blocks + (turns ? 1 : 0);
    p.band_steps[wraps] = step % p.bands;
    for (const int over : {0, 1}) {
      ItemStep& to = p.item_steps[wraps][over];
      int tiles = step / p.bands + over;
      for (int a = 2; a >= 0; --a) {
        to.tile[a] = tiles % p.axis[a].tiles;
        tiles /= p.axis[a].tiles;
      }
      to.image = tiles;
    }
  }
}

ResultSteps result_steps(const ConvParams& p, bool folds, int columns) {
  ResultSteps steps;
  const std::int64_t elements[3] = {p.to.step.d, p.to.step.h, p.to.step.w};
  std::int64_t group = 0;
  for (int a = 0; a < 3; ++a) {
    const std::int64_t position = elements[a] * (folds ? 1 : p.axis[a].stride);
    steps.tile[a] = p.axis[a].tile * position;
    group += p.group_step[a] * position;
    steps.position = position;  // of w, the last
    for (int b = 0; b < p.blocks; ++b) steps.block[b] += p.origin[b][a] * position;
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
