// SPDX-License-Identifier: Apache-2.0
// How the Hopper engine cuts a convolution into tiles: candidates from a small table, and what each would cost.
#pragma once

#include <string>
#include <vector>

#include "cuda/common/device.hpp"
#include "cuda/sm90/launchers.hpp"
#include "plan/program.hpp"

namespace convt::core::cuda::sm90 {

// A convolution as the engine sees it.
struct Geometry {
  std::array<TapAxis, 3> taps;
  Axes output{1, 1, 1};  // the box that is computed: what pools drop is not
  Axes padding{0, 0, 0};
  std::array<int, 3> span{};  // inputs of a halo tile beyond its positions, for any first output
  int element = 4;            // bytes
  int operand = 4;            // the same, as tensor cores take it: 2 of floats in place of tf32 (halved.cuh)
  int in_channels = 1, out_channels = 1;
  int row_bytes = 128, chunks = 1, last_steps = 1;  // as ConvParams has them
  int columns = 8, bands = 1;
  bool fours = false;   // lines of the output are whole fours of neighbours, channels whole groups of 8
  bool ragged = false;  // results are the output, along whose lines they are stored, and these are no whole sectors
  std::int64_t batch = 1;

  int tap_count() const;
  bool halved() const { return operand < element; }
};
// Fills in all of it, or says why the engine cannot take the program's convolution.
std::string describe(const Program& program, Geometry& geometry);
// Of floats, with f16 in place of tf32.
Geometry halved(Geometry geometry);
// Over channels: somewhere; as the first step.
bool has_norm(const Program& program);
bool begins_with_norm(const Program& program);
// The cheapest; as many as there are channels, where norms need them together and that can be.
void set_columns(Geometry& geometry, bool norm);
// Rows of 64 or 128 bytes, of chunks of as many channels.
void set_rows(Geometry& geometry, int bytes);

// Phases' inputs relative to their positions, where the first output is in phase `lead`.
struct Reach {
  std::int64_t first, last;
};
Reach reach_of(const TapAxis& axis, std::int64_t lead);

// Items are cut where blocks have fewer. Of many, the last are done soon, as other blocks have ended: no faster when
// cut.
inline constexpr int most_cut_rounds = 8;

struct Tile {
  Way way = Way::strip;
  std::string rejection;
  std::array<std::size_t, 3> order{0, 1, 2};  // the convolution's axes, as the tile's; d and h may change places
  int group_axis = 1;  // groups of 8 positions along w follow each other along it; of twins, pairs of groups
  bool run = false;    // rows follow each other as in the halo tile: ConvParams::run
  std::array<int, 3> blocks{1, 1, 1};  // of positions_of(way)
  std::array<int, 3> size{1, 1, 1};    // in positions
  std::array<int, 3> halo{1, 1, 1};
  int halo_rows = 1, slots = 1, slot_bytes = 0, stages = 1, stage_tiles = 1;
  bool resident = true, all_weights = false;
  int shared = 0;      // bytes of shared memory
  double seconds = 0;  // predicted, of all images in one launch

  // "h1x8x32": the group axis and the size; "wh1x16x32" where positions are columns; "ph1x16x16" where chunks or
  // columns are many; "th4x4x16" where halo tiles are there twice; "rh1x8x32" where a tile's rows are put together;
  // "mr98x5x49" of a run that marches, "wr1x7x34" of one whose positions are columns.
  std::string print() const;
};
// Every tile of the table, rejected ones as well; none where this way is none for the convolution.
std::vector<Tile> tiles_of(const Geometry& geometry, Way way, const DeviceProperties& device);

// Predicted, of a launch that computes this box of so many images.
double seconds_of(const Geometry& geometry, const Tile& tile, std::int64_t images, const Axes& box,
                  const DeviceProperties& device);

}  // namespace convt::core::cuda::sm90
