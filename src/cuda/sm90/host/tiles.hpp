// SPDX-License-Identifier: Apache-2.0
// Tiles: the candidates of a convolution, and the predicted time of each.
#pragma once

#include <string>
#include <vector>

#include "cuda/common/device.hpp"
#include "cuda/schedule/prediction.hpp"
#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/host/phase_window.hpp"
#include "plan/program.hpp"

namespace convt::core::cuda::sm90 {

// A convolution as the engine sees it.
struct Geometry {
  std::array<TapAxis, 3> taps;
  PhaseWindows windows;  // each window is a launch
  Axes output{1, 1, 1};  // the box that is computed: what pools drop is not
  Axes padding{0, 0, 0};
  std::array<int, 3> span{};  // inputs of a halo tile beyond its positions, for any first output
  int element = 4;            // bytes
  Format format = Format::tf32;
  int in_channels = 1, out_channels = 1;
  int row_bytes = 128, chunks = 1, last_steps = 1;  // see ConvParams
  int columns = 8, bands = 1;
  bool fours = false;       // output lines are whole quads, and channels whole groups of 8
  bool ragged = false;      // results are stored to the output, whose rows are no whole sectors
  double chain_clocks = 0;  // of one multiprocessor for each result; 0 for register epilogues
  std::int64_t batch = 1;

  int tap_count() const;
  int operand() const { return operand_bytes_of(format); }
  bool guarded() const { return is_guarded(format, element); }
  bool splits() const { return is_split(format); }
  bool tf32_as_f16() const { return guarded() && !splits(); }
  int parts() const { return splits() ? 2 : 1; }  // of an operand in a row
  int row_steps() const { return row_bytes / parts() / step_bytes; }
  int unit_channels() const { return 16 * parts() / operand(); }
};
// Describes the program's convolution, or says why the engine declines it.
std::string describe(const Program& program, Geometry& geometry);
// The geometry with f16 operands or parts, in place of tf32.
Geometry with_f16(Geometry geometry);
// Whether some step mixes channels; whether the first step is a norm over channels.
bool mixes(const Program& program);
bool begins_with_norm(const Program& program);
// Chooses the cheapest number of columns; with a norm, all channels if possible.
void set_columns(Geometry& geometry, bool norm);
// Sets rows of 64 or 128 bytes, and the chunks of channels that they hold.
void set_rows(Geometry& geometry, int bytes);

// The inputs that all phases read, relative to their positions, if the first output has phase `lead`.
struct Reach {
  std::int64_t first, last;
};
Reach reach_of(const TapAxis& axis, std::int64_t lead);

// Work tiles are split if blocks have fewer rounds than this. With more, splitting gains nothing.
inline constexpr int most_split_rounds = 8;

struct Tile {
  Config config = configs::strip;
  std::string rejection;
  std::array<std::size_t, 3> order{0, 1, 2};  // the tile's axes; d and h may be exchanged
  int group_axis = 1;                         // the axis along which groups of 8 positions follow each other
  bool run = false;                           // ConvParams::run
  std::array<int, 3> m_tiles{1, 1, 1};        // row tiles along each axis
  std::array<int, 3> size{1, 1, 1};           // in positions
  std::array<int, 3> halo{1, 1, 1};
  int halo_rows = 1, halo_stages = 1, halo_stage_bytes = 0, weight_stages = 1, weight_stage_tiles = 1;
  bool resident = true, all_weights = false;
  int shared = 0;      // bytes of shared memory
  double seconds = 0;  // predicted, of all images in one launch

  // "h1x8x32": the group axis and the size. The config's letter comes first (config/configs.def); "mr98x5x49" and
  // "wr1x7x34" are runs.
  std::string print() const;
};
// Whether planning may choose a config for this convolution. Of a fold, it does not say whether the chain has one;
// writers of folded results are chosen when a kernel is launched.
bool suits(const Geometry& geometry, const Config& config);
// All tiles of a config, rejected ones included.
std::vector<Tile> tiles_of(const Geometry& geometry, const Config& config, const DeviceProperties& device);

// The predicted time for this box of `images` images: of all launches, if phases are divided into windows.
Prediction predict_tile(const Geometry& geometry, const Tile& tile, std::int64_t images, const Axes& box,
                        const DeviceProperties& device);

}  // namespace convt::core::cuda::sm90
