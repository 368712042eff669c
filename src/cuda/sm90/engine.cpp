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

// The cheapest first, rejected ones last.
std::vector<Tile> sorted(std::vector<Tile> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) {
    return a.rejection.empty() != b.rejection.empty() ? a.rejection.empty() : a.seconds < b.seconds;
  });
  return tiles;
}

// Whether the convolution takes the program's first pool.
bool folds_first(const Program& program, const cuda::Convolver& convolver) {
  const auto pool = std::ranges::find_if(program.steps, is_pool);
  if (pool == program.steps.end()) return false;
  return convolver.pools(0, static_cast<std::size_t>(pool - program.steps.begin()), program.steps.size()).has_value();
}

class Sm90Engine : public Engine {
 public:
  std::string_view name() const override { return "cuda-sm90"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    Choice choice;
    none.rejection = cuda::generic::why_unusable(request.location);
    if (!none.rejection.empty()) return {none};
    const cuda::DeviceProperties device = cuda::properties(request.location.index);
    if (device.major != 9 || device.minor != 0) {
      none.rejection = fmt::format("needs compute capability 9.0, this is {}.{}", device.major, device.minor);
      return {none};
    }
    none.rejection = describe(*request.program, choice.geometry);
    if (!none.rejection.empty()) return {none};
    std::vector<Tile> folded, tiles;
    const auto choose = [&] {
      const bool pairs = choice.geometry.taps[2].stride >= 2, norms = has_norm(*request.program);
      const auto tiles_in = [&](std::initializer_list<Way> ways) {
        std::vector<Tile> all;
        for (const Way way : ways)
          if (!norms || way != Way::wide)
            std::ranges::copy(tiles_of(choice.geometry, way, device), std::back_inserter(all));
        return sorted(std::move(all));
      };
      choice.strip = tiles_in({Way::strip}).front();
      folded = tiles_in({Way::folded});
      choice.folded = folded.front();
      const Way narrow = !pairs ? Way::single : can_pair(choice.geometry.columns) ? Way::paired : Way::deep;
      choice.narrow = tiles_in({narrow}).front();
      tiles = tiles_in({pairs ? Way::paired : Way::single, Way::twin, Way::rows, Way::deep, Way::march, Way::wide});
      choice.quick = tiles.front();
      return choice.strip.rejection.empty() ? choice.quick.rejection : choice.strip.rejection;
    };
    none.rejection = choose();
    if (!none.rejection.empty() && choice.geometry.row_bytes == 128) {  // half as much fits more often
      set_rows(choice.geometry, 64);
      none.rejection = choose();
    }
    if (!none.rejection.empty() && choice.geometry.columns == most_columns) {
      set_columns(choice.geometry, false);
      none.rejection = choose();
    }
    if (!none.rejection.empty()) return {none};
    if (folds_first(*request.program, *make_convolver(request.program, device, choice)))
      return from_tiles(request, device, choice, folded, &Choice::folded);
    return from_tiles(request, device, choice, tiles, &Choice::quick);
  }

 private:
  std::vector<Candidate> from_tiles(const Request& request, const cuda::DeviceProperties& device, Choice choice,
                                    const std::vector<Tile>& tiles, Tile Choice::*one) const {
    const std::string_view wanted = environment().tile;
    std::vector<Candidate> all;
    for (const Tile& tile : tiles) {
      Candidate none;
      none.name = fmt::format("{} {}", name(), tile.print());
      none.rejection = tile.rejection;
      if (none.rejection.empty() && !wanted.empty() && tile.print() != wanted)
        none.rejection = fmt::format("CONVT_TILE asks for {}", wanted);
      if (!none.rejection.empty()) {
        if (!wanted.empty()) all.push_back(none);
        continue;
      }
      if (wanted.empty() && all.size() >= most_candidates) break;
      choice.*one = tile;
      const auto convolver = make_convolver(request.program, device, choice);
      for (const Between between : cuda::generic::ways_between(*request.program))
        all.push_back(
            cuda::generic::candidate_of(none.name, {request.program, convolver, device, between, 0}, request));
    }
    return all;
  }
};

}  // namespace

const Engine& cuda_sm90_engine() {
  static const Sm90Engine engine;
  return engine;
}

}  // namespace convt::core
