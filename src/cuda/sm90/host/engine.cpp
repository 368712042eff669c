// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/engine.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cuda/schedule/candidate.hpp"
#include "cuda/sm90/host/convolver.hpp"
#include "plan/environment.hpp"
#include "plan/passes.hpp"

namespace convt::core {
namespace {

using namespace cuda::sm90;

constexpr std::size_t most_candidates = 6;  // tiles with the least predicted cost
// The fewest input channels for f16. With fewer, products are not the bottleneck.
constexpr int few_channels = 8;

// Sorts tiles by cost; rejected ones come last.
std::vector<Tile> sorted(std::vector<Tile> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) {
    return a.rejection.empty() != b.rejection.empty() ? a.rejection.empty() : a.seconds < b.seconds;
  });
  return tiles;
}

// The tiles of a geometry, for folded phases and for others, the cheapest first.
struct Tiling {
  Choice choice;
  std::vector<Tile> folded, tiles;
  bool folds = false;  // the convolution takes the program's first pool
  std::string rejection;
};
Tiling tiling_of(const Program& program, const Geometry& geometry, const cuda::DeviceProperties& device) {
  const auto tiles_in = [&](std::initializer_list<Config> all_configs) {
    std::vector<Tile> all;
    for (const Config& config : all_configs)
      std::ranges::copy(tiles_of(geometry, config, device), std::back_inserter(all));
    return sorted(std::move(all));
  };
  const bool pairs = geometry.taps[2].stride >= 2;
  const bool paired = has_columns(configs::paired, geometry.columns);
  const Config& plain = geometry.splits() ? (pairs ? configs::split_paired : configs::split_single)
                        : !pairs          ? configs::single
                        : paired          ? configs::paired
                                          : configs::k_heavy;
  Tiling tiling;
  tiling.choice = {.geometry = geometry,
                   .preferred = {},
                   .plain = tiles_in({plain}).front(),
                   .folded = {},
                   .strip = tiles_in({configs::strip}).front()};
  // Swapped operands need a chain without a norm, and a plain tile for results that they cannot store.
  const Config& first = pairs ? configs::paired : configs::single;
  tiling.tiles =
      geometry.splits() ? tiles_in({plain})
      : mixes(program) || !tiling.choice.plain.rejection.empty()
          ? tiles_in({first, configs::quads, configs::rows, configs::k_heavy, configs::sliding})
          : tiles_in({first, configs::quads, configs::rows, configs::k_heavy, configs::sliding, configs::swapped});
  tiling.folded = tiles_in({geometry.splits() ? configs::split_folded : configs::folded});
  tiling.choice.preferred = tiling.tiles.front();
  tiling.choice.folded = tiling.folded.front();
  const std::string& strip = tiling.choice.strip.rejection;
  tiling.rejection = strip.empty() ? tiling.choice.preferred.rejection : strip;
  return tiling;
}
// Whether rows of 64 bytes are better: they make room for swapped operands, which can store the results.
bool is_better(const Program& program, const Tiling& half, const Tiling& whole) {
  return program.asked->output_layout == CONVT_CHANNELS_FIRST && half.choice.preferred.config == configs::swapped &&
         half.choice.preferred.seconds < 0.95 * whole.choice.preferred.seconds;
}

// Whether the convolution takes the program's first pool.
bool folds_first(const Program& program, const cuda::Convolver& convolver) {
  const auto pool = std::ranges::find_if(program.steps, is_pool);
  if (pool == program.steps.end()) return false;
  return convolver.pools(0, static_cast<std::size_t>(pool - program.steps.begin()), program.steps.size()).has_value();
}

// The best of rows of 64 and 128 bytes, with as many columns as fit.
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

  std::vector<Candidate> candidates(const Request& asked) const override {
    Request request = asked;
    const bool keeps_kernel = asked.program->asked->dtype != CONVT_F32 && asked.program->kernel_change.any();
    if (keeps_kernel)
      request.program = std::make_shared<const Program>(
          rewrite(asked.program->asked, {true, true, "a changed kernel would be float32"}));
    Candidate none;
    none.name = name();
    none.rejection = cuda::schedule::why_unusable(request.location);
    if (none.rejection.empty()) none.rejection = reaches_too_far(request.program->convolution);
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    if (device.major != 9 || device.minor != 0) {
      none.rejection = formatted("needs compute capability 9.0, this is {}.{}", device.major, device.minor);
      return {none};
    }
    Geometry geometry;
    none.rejection = describe(*request.program, geometry);
    if (none.rejection.empty() && geometry.splits() && request.plain_ieee)
      none.rejection = "float32 is asked for by plain multiply-adds";
    if (!none.rejection.empty()) return {none};
    const Tiling tiling = best_tiling(request.program, geometry, device);
    none.rejection = tiling.rejection;
    if (!none.rejection.empty()) return {none};
    std::vector<Candidate> all;
    // Tiles with f16, which must have the same columns.
    if (geometry.element == 4 && (geometry.splits() || !request.native_tf32) &&
        can_use_f16(tiling.choice.geometry.columns) && geometry.in_channels >= few_channels) {
      Tiling first = best_tiling(request.program, with_f16(geometry), device);
      const auto make = [&](const Choice& choice) {
        return make_guarded_convolver(request.program, make_convolver(request.program, device, choice),
                                      make_convolver(request.program, device, tiling.choice), device);
      };
      if (first.rejection.empty() && first.choice.geometry.columns == tiling.choice.geometry.columns) {
        first.folds = folds_first(*request.program, *make(first.choice));  // both kernels fold, or neither does
        all = from_tiles(request, device, first, make);
      }
    }
    std::ranges::move(from_tiles(request, device, tiling,
                                 [&](const Choice& choice) -> std::shared_ptr<const cuda::Convolver> {
                                   return make_convolver(request.program, device, choice);
                                 }),
                      std::back_inserter(all));
    for (Candidate& candidate : all)
      if (keeps_kernel) candidate.program = request.program;
    return all;
  }

 private:
  // make_one(choice) makes a convolver.
  template <class Make>
  std::vector<Candidate> from_tiles(const Request& request, const cuda::DeviceProperties& device, const Tiling& tiling,
                                    const Make& make_one) const {
    const std::string_view wanted = environment().tile;
    Choice choice = tiling.choice;
    std::vector<Candidate> all;
    for (const Tile& tile : tiling.folds ? tiling.folded : tiling.tiles) {
      const std::string own = (choice.geometry.guarded() ? "f" : "") + tile.print();
      Candidate none;
      none.name = formatted("{} {}", name(), own);
      none.rejection = tile.rejection;
      if (none.rejection.empty() && !wanted.empty() && own != wanted)
        none.rejection = formatted("CONVT_TILE asks for {}", wanted);
      if (!none.rejection.empty()) {
        if (!wanted.empty()) all.push_back(none);
        continue;
      }
      if (wanted.empty() && all.size() >= most_candidates) break;
      choice.*(tiling.folds ? &Choice::folded : &Choice::preferred) = tile;
      const auto convolver = make_one(choice);
      for (const Between between : cuda::schedule::ways_between(*request.program))
        all.push_back(
            cuda::schedule::candidate_of(none.name, {request.program, convolver, device, between, 0}, request));
      if (choice.geometry.guarded() && !all.back().rejection.empty())
        break;  // rejected for its chain, whatever the tile
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
