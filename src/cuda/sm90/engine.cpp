// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/engine.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/generic/candidate.hpp"
#include "cuda/sm90/convolver.hpp"
#include "plan/environment.hpp"
#include "plan/passes.hpp"

namespace convt::core {
namespace {

using namespace cuda::sm90;

constexpr std::size_t most_candidates = 6;  // of tiles: the best ones by what they would cost
// Input channels from which on f16 may take the place of tf32: of fewer, products are not what takes time.
constexpr int few_channels = 8;

// The cheapest first, rejected ones last.
std::vector<Tile> sorted(std::vector<Tile> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) {
    return a.rejection.empty() != b.rejection.empty() ? a.rejection.empty() : a.seconds < b.seconds;
  });
  return tiles;
}

// What a geometry comes to: tiles for folded phases and for others, the best ones first.
struct Tiling {
  Choice choice;
  std::vector<Tile> folded, tiles;
  bool folds = false;  // the convolution takes the program's first pool
  std::string rejection;
};
Tiling tiling_of(const Program& program, const Geometry& geometry, const cuda::DeviceProperties& device) {
  const auto tiles_in = [&](std::initializer_list<Way> ways) {
    std::vector<Tile> all;
    for (const Way way : ways) std::ranges::copy(tiles_of(geometry, way, device), std::back_inserter(all));
    return sorted(std::move(all));
  };
  const bool pairs = geometry.taps[2].stride >= 2;
  const Way narrow = !pairs ? Way::single : can_pair(geometry.columns) ? Way::paired : Way::deep;
  Tiling tiling;
  tiling.choice = {.geometry = geometry,
                   .quick = {},
                   .narrow = tiles_in({narrow}).front(),
                   .folded = {},
                   .strip = tiles_in({Way::strip}).front()};
  // Positions are columns of chains without a norm; and where their results cannot be stored so, another tile must be.
  const Way first = pairs ? Way::paired : Way::single;
  tiling.tiles = has_norm(program) || !tiling.choice.narrow.rejection.empty()
                     ? tiles_in({first, Way::twin, Way::rows, Way::deep, Way::march})
                     : tiles_in({first, Way::twin, Way::rows, Way::deep, Way::march, Way::wide});
  tiling.folded = tiles_in({Way::folded});
  tiling.choice.quick = tiling.tiles.front();
  tiling.choice.folded = tiling.folded.front();
  const std::string& strip = tiling.choice.strip.rejection;
  tiling.rejection = strip.empty() ? tiling.choice.quick.rejection : strip;
  return tiling;
}
// Half as many channels of a pixel in shared memory at a time: where that makes room for positions as columns, and
// results can be stored so.
bool is_better(const Program& program, const Tiling& half, const Tiling& whole) {
  return program.asked->output_layout == CONVT_CHANNELS_FIRST && half.choice.quick.way == Way::wide &&
         half.choice.quick.seconds < 0.95 * whole.choice.quick.seconds;
}

// Whether the convolution takes the program's first pool.
bool folds_first(const Program& program, const cuda::Convolver& convolver) {
  const auto pool = std::ranges::find_if(program.steps, is_pool);
  if (pool == program.steps.end()) return false;
  return convolver.pools(0, static_cast<std::size_t>(pool - program.steps.begin()), program.steps.size()).has_value();
}

// Of rows of 64 or 128 bytes, and of as many columns as fit.
Tiling best_tiling(const std::shared_ptr<const Program>& program, Geometry geometry,
                   const cuda::DeviceProperties& device) {
  Tiling tiling = tiling_of(*program, geometry, device);
  const auto find_folds = [&] {
    tiling.folds = tiling.rejection.empty() && folds_first(*program, *make_convolver(program, device, tiling.choice));
    return tiling.folds;
  };
  if (geometry.row_bytes == 128 && !find_folds()) {
    set_rows(geometry, 64);
    const Tiling other = tiling_of(*program, geometry, device);
    if (other.rejection.empty() && (!tiling.rejection.empty() || is_better(*program, other, tiling))) tiling = other;
  }
  if (!tiling.rejection.empty() && geometry.columns == most_columns) {
    set_columns(geometry, false);
    tiling = tiling_of(*program, geometry, device);
  }
  find_folds();
  return tiling;
}

class Sm90Engine final : public Engine {
 public:
  std::string_view name() const override { return "cuda-sm90"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    none.rejection = cuda::generic::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    if (device.major != 9 || device.minor != 0) {
      none.rejection = fmt::format("needs compute capability 9.0, this is {}.{}", device.major, device.minor);
      return {none};
    }
    Geometry geometry;
    none.rejection = describe(*request.program, geometry);
    if (!none.rejection.empty()) return {none};
    const Tiling tiling = best_tiling(request.program, geometry, device);
    none.rejection = tiling.rejection;
    if (!none.rejection.empty()) return {none};
    std::vector<Candidate> all;
    // f16 in place of tf32, for as many columns.
    if (geometry.element == 4 && !request.native_tf32 && can_halve(tiling.choice.geometry.columns) &&
        geometry.in_channels >= few_channels) {
      Tiling first = best_tiling(request.program, halved(geometry), device);
      const auto make = [&](const Choice& choice) {
        return make_halved_convolver(request.program, make_convolver(request.program, device, choice),
                                     make_convolver(request.program, device, tiling.choice), device);
      };
      if (first.rejection.empty() && first.choice.geometry.columns == tiling.choice.geometry.columns) {
        first.folds = folds_first(*request.program, *make(first.choice));  // both do, or none
        all = from_tiles(request, device, first, make);
      }
    }
    std::ranges::move(from_tiles(request, device, tiling,
                                 [&](const Choice& choice) -> std::shared_ptr<const cuda::Convolver> {
                                   return make_convolver(request.program, device, choice);
                                 }),
                      std::back_inserter(all));
    return all;
  }

 private:
  // make_one(choice): a convolver.
  template <class Make>
  std::vector<Candidate> from_tiles(const Request& request, const cuda::DeviceProperties& device, const Tiling& tiling,
                                    const Make& make_one) const {
    const std::string_view wanted = environment().tile;
    Choice choice = tiling.choice;
    std::vector<Candidate> all;
    for (const Tile& tile : tiling.folds ? tiling.folded : tiling.tiles) {
      const std::string own = (choice.geometry.halved() ? "f" : "") + tile.print();
      Candidate none;
      none.name = fmt::format("{} {}", name(), own);
      none.rejection = tile.rejection;
      if (none.rejection.empty() && !wanted.empty() && own != wanted)
        none.rejection = fmt::format("CONVT_TILE asks for {}", wanted);
      if (!none.rejection.empty()) {
        if (!wanted.empty()) all.push_back(none);
        continue;
      }
      if (wanted.empty() && all.size() >= most_candidates) break;
      choice.*(tiling.folds ? &Choice::folded : &Choice::quick) = tile;
      const auto convolver = make_one(choice);
      for (const Between between : cuda::generic::ways_between(*request.program))
        all.push_back(
            cuda::generic::candidate_of(none.name, {request.program, convolver, device, between, 0}, request));
      if (choice.geometry.halved() && !all.back().rejection.empty()) break;  // for the chain: with any tile
    }
    return all;
  }
};

}  // namespace

const Engine& cuda_sm90_engine() {
  static constinit const Sm90Engine engine;
  return engine;
}

}  // namespace convt::core
