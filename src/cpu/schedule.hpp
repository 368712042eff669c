// SPDX-License-Identifier: Apache-2.0
// A program cut into passes, tiles and items, with every buffer in its place. Made once per plan.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cpu/blocking.hpp"
#include "cpu/isa.hpp"
#include "cpu/sizes.hpp"
#include "cpu/sums.hpp"
#include "plan/passes.hpp"

namespace convt::core::cpu {

struct Setup {
  std::shared_ptr<const Program> program;
  const Isa* isa = nullptr;
  std::size_t threads = 1;
  Between between = Between::store;
  const SpaceSum* sum = nullptr;  // of which the program is; null: the program's convolution is computed
};

// Places in the workspace, in bytes from its beginning.
using Place = std::size_t;

// From channel to channel of a tile with this box.
template <class T>
std::int64_t tile_step(const Box& box) {
  return odd_lines<T>(box.pixels());
}

template <class T>
struct PassPlan {
  Pass pass;
  Cut cut;
  std::unique_ptr<Convolver<T>> convolver;    // of a pass that begins with the convolution
  std::array<std::vector<Levels>, 3> levels;  // by axis and tile
  std::int64_t tiles = 1, splits = 1;
  Regions regions;                // of the norm at its end
  std::int64_t regions_each = 0;  // at most, of a tile
  Place packed = 0;               // weights
  Place partials = 0;             // moments or folds: by image in flight, tile, region or channel
  Place merged = 0;               // moments: by image in flight and region
  Place centre = 0, scale = 0;    // the norm's statistics: by image in flight and region

  Axes tile_at(std::int64_t tile) const {
    const auto h = static_cast<std::int64_t>(levels[1].size()), w = static_cast<std::int64_t>(levels[2].size());
    return {tile / (h * w), tile / w % h, tile % w};
  }
  Box box(const Axes& tile, std::size_t level) const {
    Box result;
    for (std::size_t a = 0; a < 3; ++a) {
      const Interval& one = levels[a][static_cast<std::size_t>(tile[a])][level];
      result.origin[a] = one.begin;
      result.size[a] = one.size();
    }
    return result;
  }
  // Adds a tile's moments, numbered within the tile, to those of the image's regions.
  void merge_tile(std::int64_t tile, const Moments* parts, Moments* sums) const;
  Interval channels(std::int64_t split) const {
    const std::int64_t each = cut.blocking.channels;
    return {split * each, std::min((split + 1) * each, pass.in.channels)};
  }
};

template <class T>
struct Schedule {
  explicit Schedule(const Setup& setup);

  std::shared_ptr<const Program> program;
  const ChainKernels<T>* chain = nullptr;
  std::size_t threads = 1;
  std::unique_ptr<SpaceSums<T>> sums;  // in place of the convolution: their results are stored for the one pass
  std::vector<PassPlan<T>> passes;
  std::int64_t flight = 1;       // images that go through all passes together
  bool direct_output = false;    // the convolution's result is the output, and goes there at once
  bool store_in_output = false;  // values between passes are kept in the output

  struct Constants {
    Place a = 0, b = 0;          // of an Affine; a alone: of a Combine by channel
    Place wide = 0;              // of an Affine both again, in double
    Place weight = 0, bias = 0;  // of a norm over trailing axes
  };
  std::vector<Constants> constants;           // by step
  std::vector<Constants> prologue_constants;  // by step of the prologue
  bool prologue_keeps_zero = true;
  Place changed_kernel = 0, store = 0, shared_sums = 0;
  std::int64_t store_step = 0;  // elements of one image in the store

  // Per thread, from slots + slot*slot_size.
  Place slots = 0, slot_size = 0;
  Place scratch = 0, sums_scratch = 0, tile = 0, conv_copy = 0, conv_part = 0, moments = 0, centre = 0, scale = 0;
  std::array<Place, 2> pooled{};
  std::vector<Place> kept;  // by step: what it keeps; or, where it uses a kept value, its part of that, or its result

  std::size_t workspace = 0;
  std::string rejection;  // why this cannot run
  double cycles = 0;      // of one thread

 private:
  void plan_passes(const Setup& setup);
  void plan_shared();
  void plan_slots();
};

// The largest part of an image that is worth a tile of its own: then steps that need a whole image need no pass.
template <class T>
bool image_is_a_tile(const Program& program);

}  // namespace convt::core::cpu
