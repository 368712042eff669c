// SPDX-License-Identifier: Apache-2.0
// A program as passes over tiles. Most programs are one pass: a tile is convolved and goes through every step while it
// is in cache. A step that needs a whole image first ends a pass: a norm over space, whose statistics are gathered
// from all tiles, or a pool over the whole image, whose folds are. The next pass goes on from the values before the
// norm, which were stored, or which it computes again; or from the pool's result, which is small.
#pragma once

#include <string>
#include <vector>

#include "plan/phases.hpp"
#include "plan/program.hpp"

namespace convt::core {

// A part of an image's space.
struct Box {
  Axes origin{0, 0, 0}, size{1, 1, 1};
  std::int64_t pixels() const { return volume(size); }
};

// How a norm over space cuts an image into regions: region(c, d, h, w) = c/channels_each * outer + the row-major index
// of the leading space axes [0, axes).
struct Regions {
  std::int64_t channels_each = 1;  // channels of one region
  int axes = 0;                    // leading space axes that tell regions apart; the rest lie inside a region
  std::int64_t outer = 1;          // the product of their sizes
  std::int64_t count = 1;          // of the image
};

struct Pass {
  enum class Source { convolution, store };
  enum class Sink { output, moments, fold };
  Source source = Source::convolution;
  Sink sink = Sink::output;
  std::size_t begin = 0, end = 0;  // steps that a tile goes through; `end` is the step that a sink measures or folds
  bool whole_image = false;        // a tile has all of the space that a norm over space needs
  bool stores = false;             // the values at the end are kept for the next pass
  Shape in, out;                   // at `begin` and at `end`
};

enum class Between { store, recompute };

// `whole_image`: a tile has all of an image's space, so that no step needs another pass.
std::vector<Pass> passes_of(const Program& program, Between between, bool whole_image);
// Why these passes are not worth planning: passes that each compute again what the one before did take as much as the
// square of their number. "" where they are.
std::string too_many_steps(const std::vector<Pass>& passes);

bool needs_space(const Step& step);    // a norm over space
bool folds_space(const Step& step);    // a pool over the whole image
Regions regions_of(const Step& step);  // of a norm over space
bool is_pool(const Step& step);
bool uses_conv(const Step& step);
bool uses_conv(const Program& program, std::size_t begin, std::size_t end);  // some of these steps
// A step that uses a kept value of another shape: one of both is broadcast; along space, or along anything.
bool broadcasts_space(const Program& program, const Step& step);
bool broadcasts(const Program& program, const Step& step);
// Some step needs a tile that has all of an image's space, since it sees a value and what was folded from it over
// space.
bool needs_whole_image(const Program& program);

// Channels that must stay in one tile for these steps: 1 where every channel goes its own way, all of them where steps
// mix channels.
std::int64_t channels_together(const Program& program, const Pass& pass);

// The part of an axis that a tile needs at each level of a pass: [0] of the source's values, [i] behind i steps.
using Levels = std::vector<Interval>;
Levels walk_back(const Program& program, const Pass& pass, std::size_t axis, const Interval& out);

}  // namespace convt::core
