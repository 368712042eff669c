// SPDX-License-Identifier: Apache-2.0
// The Hopper engine on a model of the hardware (machine.hpp), with the checks of `convt verify`. Of one case:
//   hopper_model_test --case "conv_transpose2d dtype=f16 channels=8->8 input=4x4 kernel=3" [--tile h1x8x32] [--seed 1]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "check.hpp"
#include "cuda/sm90/config/params.hpp"
#include "execution.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/machine.hpp"
#include "support/environment.hpp"
#include "support/ranges.hpp"
#include "support/tf32_promise.hpp"

namespace convt::testing {
namespace {

// Channels that fill rows and columns and that do not, one chunk and several, more than stay in shared memory; bands;
// phases with and without taps; short chains and others; pools that fold and that do not; many tiles for a block; lines
// of even and of odd length, and halo tiles whose lines begin at both; results that are stored as vectors; pools whose
// results writers store, many tiles of a block; many chunks, of phases that are summed together; halo tiles that are
// there twice; norms over more channels than 64, and than 128; rows of half the bytes, as boxes of whole ones do not
// fit; long strides, whose phases along w are split.
const std::vector<std::string> shapes = {
    "1d batch=3 channels=20->40 input=100 kernel=9 stride=4 padding=2 | bias | silu",
    "1d channels=1->1 input=1 kernel=1",
    "2d channels=16->8 input=8x8 kernel=1",
    "2d batch=2 channels=64->64 input=20x25 kernel=3",
    "2d batch=2 channels=48->24 input=9x11 kernel=3",
    "2d channels=5->3 input=9x11 kernel=3x2 padding=1x0 layout=channels_last",
    "2d channels=200->150 input=5x6 kernel=3 stride=3 padding=1 | bias | relu",
    "2d channels=530->20 input=5x6 kernel=2 stride=2 | softmax",
    "2d channels=530->70 input=5x6 kernel=3 stride=2",
    "2d channels=600->8 input=2x2 kernel=1 stride=4 padding=1",  // no output has a tap
    "2d channels=600->70 input=2x2 kernel=1 stride=4 padding=1 | bias | relu",
    "2d channels=33->65 input=9x10 kernel=2 stride=4 padding=1 dilation=3 | instance_norm | relu",
    "2d batch=2 channels=40->20 input=10x17 kernel=5 stride=2x3 | bias | layer_norm(channels, affine) | gelu | mul(3)",
    "3d channels=32->64 input=3x5x9 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "3d batch=2 channels=16->64 input=3x5x9 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "3d channels=32->64 input=4x5x6 kernel=5 stride=2 padding=2 | bias | max_pool(2) | max_pool(3) | sum",
    "2d batch=2 channels=24->30 input=21x19 kernel=3 stride=3 padding=2 | relu | max_pool(3) | layer_norm(channels) | "
    "gelu",
    "2d channels=24->30 input=11x19 kernel=2 stride=3 output_padding=1 | relu | avg_pool(3) | silu",
    "2d channels=24->30 input=11x19 kernel=3 stride=2 | relu | max_pool(2, stride=3) | tanh",
    "2d batch=4 channels=8->8 input=40x40 kernel=2 | relu",
    "3d batch=2 channels=48->24 input=5x19x18 kernel=3",
    "3d channels=48->20 input=7x9x8 kernel=3 padding=1 | bias | layer_norm(channels) | relu",
    "3d channels=16->64 input=4x9x20 kernel=1x3x2 padding=0x1x1 | gelu",
    "3d channels=80->24 input=5x9x8 kernel=3 layout=channels_last",
    "2d batch=3 channels=64->96 input=5x9 kernel=2 stride=2 layout=channels_last | bias | relu",
    "2d batch=8 channels=8->72 input=20x20 kernel=2 stride=2",
    "2d batch=8 channels=8->72 input=20x20 kernel=2 stride=2 | gelu | mul(5)",
    "3d batch=2 channels=20->24 input=4x7x50 kernel=3 padding=1",
    "3d channels=75->16 input=3x6x34 kernel=3x2x4 padding=0x1x2",
    "2d batch=2 channels=100->30 input=9x2 kernel=3x5 padding=1x2",
    "2d channels=44->40 input=11x30 kernel=4 stride=2 padding=1",
    "3d channels=32->64 input=3x5x16 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "3d batch=2 channels=16->64 input=3x5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "2d channels=32->64 input=5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | avg_pool(2) | "
    "gelu | mul(0.5)",
    "2d channels=16->40 input=5x8 kernel=2 stride=2 | layer_norm(channels) | avg_pool(2) | mul(3) | gelu",
    "2d channels=32->64 input=5x8 kernel=2 stride=2 | layer_norm(channels) | avg_pool(2) | mul(1e30)",
    "2d batch=2 channels=20->128 input=9x24 kernel=2 stride=2 | bias | relu",
    "2d channels=8->48 input=7x16 kernel=2 stride=3x2",
    "2d batch=2 channels=24->32 input=5x16 kernel=4 stride=4 | relu | max_pool(4) | bias",
    "2d batch=6 channels=32->64 input=20x40 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | layer_norm(channels, affine) | gelu",
    "2d batch=5 channels=32->30 input=19x33 kernel=2 stride=2 | max_pool(2) | bias | gelu",
    "2d batch=3 channels=64->32 input=9x17 kernel=2 stride=2 layout=channels_last | max_pool(2) | relu",
    "2d batch=2 channels=32->32 input=19x40 kernel=2 stride=2 | max_pool(2) | max_pool(3) | sum",
    "2d batch=2 channels=48->24 input=11x40 kernel=3x5 padding=1x2 | bias | layer_norm(channels)",
    "3d channels=150->40 input=3x4x6 kernel=2 stride=2 | bias | relu",
    "2d batch=3 channels=100->64 input=7x9 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "2d channels=520->64 input=5x9 kernel=2x3 stride=2x3 | instance_norm",
    "3d channels=300->130 input=2x3x4 kernel=3x2x2 stride=3x2x4 | bias",
    "3d batch=2 channels=24->64 input=5x6x18 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "2d batch=2 channels=90->40 input=9x34 kernel=3 stride=2 padding=1 output_padding=1 | bias | relu",
    "2d batch=2 channels=24->96 input=9x18 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "2d channels=70->100 input=9x10 kernel=3 | bias | layer_norm(channels, affine) | relu",
    "3d channels=20->128 input=3x5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | avg_pool(2) "
    "| "
    "gelu",
    "2d channels=40->128 input=5x7 kernel=2 stride=3 | layer_norm(channels) | softmax",
    "2d channels=8->140 input=5x7 kernel=2 stride=2 | bias | layer_norm(channels) | gelu",
    "1d batch=2 channels=4->300 input=19 kernel=3 stride=2 | softmax | layer_norm(channels) | add(1)",
    "2d channels=40->16 input=3x20 kernel=33x9 padding=4",
    "3d channels=20->64 input=3x5x16 kernel=3 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "2d batch=2 channels=40->70 input=9x37 kernel=3 stride=2 padding=1 | bias | relu",
    "3d batch=3 channels=8->20 input=4x7x13 kernel=3x2x5 stride=3x1x2 padding=1x0x2 | relu",
    "3d batch=2 channels=16->24 input=3x9x35 kernel=3 stride=2 padding=1",
    "1d batch=2 channels=72->40 input=21 kernel=16 stride=8 padding=4 | bias | relu",
    "1d channels=140->70 input=19 kernel=10 stride=5 padding=3 output_padding=2 | leaky_relu(0.1)",
    "1d batch=3 channels=20->24 input=40 kernel=7 stride=7 | gelu",
    "1d channels=600->30 input=9 kernel=12 stride=6 padding=3",
    "2d channels=21->21 input=4x9 kernel=16 stride=8 padding=2 | bias",
    "2d channels=12->66 input=5x4 kernel=5 stride=6 dilation=2 | tanh",  // phases without taps
    "2d channels=24->32 input=3x9 kernel=8 stride=8 | relu | max_pool(8)",
    "3d channels=8->12 input=2x3x5 kernel=2x3x9 stride=2x4x8 layout=channels_last | bias | softmax",
    "3d batch=2 channels=16->64 input=2x3x9 kernel=4x2x8 stride=4x2x8 padding=1 | layer_norm(channels) | gelu",
    // Windows of phases.
    "1d batch=2 channels=72->40 input=13 kernel=20 stride=10 padding=5 | bias | relu",
    "1d channels=24->24 input=20 kernel=9 stride=9 padding=2 output_padding=4 | tanh",
    "1d channels=16->70 input=7 kernel=33 stride=17 dilation=3 | layer_norm(channels) | gelu",
    "1d channels=40->8 input=5 kernel=64 stride=64 padding=13 | leaky_relu(0.2)",
    "2d batch=2 channels=20->30 input=3x5 kernel=16 stride=16 padding=3 | bias | gelu",
    "2d channels=20->24 input=2x4 kernel=3x12 stride=12x4 layout=channels_last | relu | max_pool(3)",
    "2d channels=9->21 input=3x4 kernel=12x10 stride=9x11 padding=1x2 output_padding=8x3 | softmax",
    "3d channels=20->64 input=2x3x3 kernel=8x8x2 stride=8x8x2 | instance_norm | relu",
};

class HopperModel : public ::testing::TestWithParam<std::string> {};

// Of the seeds, one draws values that are not finite. Modes differ in little but the types of elements: each shape goes
// through both seeds by both schedules, but not in each mode.
TEST_P(HopperModel, AgreesWithTheReference) {
  struct Run {
    std::size_t mode;
    std::uint64_t seed;
    bool late;
  };
  for (const Run& run : {Run{0, 0, true}, Run{0, 1, false}, Run{1, 0, false}, Run{2, 1, true}}) {
    const std::string text = in_mode(GetParam(), modes[run.mode]);
    EXPECT_EQ(defect_of(text, run.seed, nullptr, {run.late}), "") << text << ", seed " << run.seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HopperModel, ::testing::ValuesIn(shapes));

const std::vector<std::string> tiled_shapes = {
    "3d channels=32->24 input=9x9x17 kernel=3x2x2 padding=1",
    "3d channels=20->24 input=5x9x18 kernel=3 padding=1x1x0",
    "3d channels=16->8 input=9x9x17 kernel=2 stride=1x1x2 | bias | relu",
    "3d channels=36->8 input=3x9x18 kernel=2x2x3 stride=1x1x2",
    "3d channels=8->24 input=3x9x16 kernel=2 stride=1x1x2 | layer_norm(channels)",
    "2d channels=8->32 input=9x24 kernel=2 stride=2 | max_pool(2)",
    "2d channels=32->32 input=9x24 kernel=3 stride=2 | max_pool(2)",
    "2d channels=140->40 input=7x18 kernel=3 stride=2",
    "3d channels=20->40 input=3x5x18 kernel=2x3x4 stride=1x2x2 padding=0x1x1",
    "2d channels=80->64 input=5x22 kernel=5 stride=2 padding=2 output_padding=1 | gelu",
    "2d channels=32->32 input=5x18 kernel=2 stride=2 layout=channels_last->channels_first",
    "3d channels=8->30 input=2x5x17 kernel=3x2x2 stride=2x1x2 | layer_norm(channels)",
    "2d batch=2 channels=12->70 input=9x21 kernel=2x3 | bias | relu"};

class HopperModelTiles : public ::testing::TestWithParam<std::string> {};

TEST_P(HopperModelTiles, AgreeWithTheReference) {
  for (const std::string& mode : {modes[0], modes[2]}) {
    const std::string text = in_mode(GetParam(), mode);
    const std::vector<std::string> tiles = tiles_of(text);
    EXPECT_GE(tiles.size(), 6U) << text;
    bool late = false;
    for (const std::string& tile : tiles) {
      const WithVariable forced("CONVT_TILE", tile);
      late = !late;
      // Of the seeds, this one draws outputs that begin at addresses which divide by 16.
      EXPECT_EQ(defect_of(text, 2, nullptr, {late}), "") << text << ", tile " << tile;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HopperModelTiles, ::testing::ValuesIn(tiled_shapes));

// Rows that are no whole sectors: they are put together where that is worth it, and right where it is not. Of the
// seeds, one draws weights that are not finite.
TEST(HopperModelRows, AreStoredTogether) {
  EXPECT_NE(Plan::from_text("conv_transpose3d dtype=bf16 batch=8 channels=16->24 input=64 kernel=3 stride=2 padding=1",
                            {.device = Device::cuda})
                .explain()
                .find("tiles r"),
            std::string::npos);
  for (const std::string& mode : modes)
    for (const std::string shape : {"3d batch=2 channels=8->70 input=3x5x9 kernel=3x2x2 stride=3x2x2 | bias",
                                    "2d channels=8->30 input=3x2 kernel=3 stride=2 padding=1 | relu",
                                    "2d channels=40->64 input=5x18 kernel=3 stride=2 | layer_norm(channels) | gelu"}) {
      const std::string text = in_mode(shape, mode);
      const std::string tile = "rh1x8x32";
      EXPECT_EQ(std::ranges::count(tiles_of(text), tile), 1) << text;
      const WithVariable forced("CONVT_TILE", tile);
      for (const std::uint64_t seed : {0U, 1U, 2U}) EXPECT_EQ(defect_of(text, seed), "") << text << ", seed " << seed;
    }
}

// Blocks change places where rows have as many tiles as there are blocks, five: in four rounds.
TEST(HopperModelTurns, AreTakenByAllBlocks) {
  for (const std::string& mode : modes)
    for (const std::string shape : {"2d batch=2 channels=8->64 input=20x68 kernel=3 | bias | gelu | mul(0.5)",
                                    "2d batch=4 channels=8->40 input=8x65 kernel=3x2",
                                    "2d batch=4 channels=8->50 input=14x80 kernel=3 padding=1 | relu"}) {
      const std::string text = in_mode(shape, mode);
      for (const std::string tile : {"wh1x16x16", "fwh1x16x16"}) {  // the second: f16 in place of tf32
        if (tile[0] == 'f' && mode != modes[0]) continue;
        EXPECT_EQ(std::ranges::count(tiles_of(text), tile), 1) << text;
        const WithVariable forced("CONVT_TILE", tile);
        for (const std::uint64_t seed : {0U, 1U, 2U}) EXPECT_EQ(defect_of(text, seed), "") << text << ", seed " << seed;
      }
    }
}

// Of lines of which no power of two makes tiles: of 64 and of 128 bytes a row, in bands, where taps are apart, where
// lines are odd, and where some weights are not finite.
TEST(HopperModelRuns, HavePositionsAsColumns) {
  const std::pair<std::string, std::string> shapes[] = {
      {"3d batch=2 channels=40->50 input=3x20x17 kernel=3", "wr1x11x20"},
      {"3d channels=20->64 input=3x20x16 kernel=3 padding=1x2x1 | bias | gelu", "wr1x9x16"},
      {"2d batch=2 channels=16->100 input=30x37 kernel=3x5 dilation=2x1 | relu", "wr1x5x42"},
      {"2d channels=8->40 input=19x130 kernel=3x2", "wr1x3x66"}};
  // Lines of odd length where results are staged: no pairs.
  for (const std::string& tile : tiles_of("conv_transpose2d dtype=f16 channels=8->40 input=19x131 kernel=3x2"))
    EXPECT_FALSE(tile.starts_with("wr")) << tile;
  // Only a run would fit, and no other tile for results that are no lines along w; and boxes of 2^32 pixels.
  for (const std::string text :
       {"conv_transpose2d dtype=f16 channels=8->64 input=31x8 kernel=2 dilation=9x56 layout=channels_last",
        "conv_transpose3d dtype=f16 channels=8->8 input=4x2x2 kernel=3x2x2 dilation=1x65535x65280 "
        "padding=0x32767x32513"})
    EXPECT_NE(defect_of(text, 0).find("does not fit in shared memory"), std::string::npos) << text;
  for (const std::string& mode : modes)
    for (const auto& [shape, tile] : shapes) {
      const std::string text = in_mode(shape, mode);
      EXPECT_EQ(std::ranges::count(tiles_of(text), tile), 1) << text;
      const WithVariable forced("CONVT_TILE", tile);
      for (const std::uint64_t seed : {0U, 1U, 2U}) EXPECT_EQ(defect_of(text, seed), "") << text << ", seed " << seed;
    }
}

TEST(HopperModelDivisor, DividesAllThatItPromises) {
  using core::cuda::sm90::Divisor;
  for (int by = 1; by < 1 << 15; by += by < 300 ? 1 : 61)
    for (int x = 0; x < 1 << 15; ++x) ASSERT_EQ(Divisor(by).quotient(x), x / by) << x << " / " << by;
}

// Channels whose mean is hundreds of times their spread: what one pass would leave of their squares is mostly rounding.
TEST(HopperModelNorms, AreExactFarFromZero) {
  for (const std::string chain : {"64 | layer_norm(channels) | gelu", "64 | layer_norm(channels) | avg_pool(2)",
                                  "128 | layer_norm(channels) | gelu", "128 | layer_norm(channels) | avg_pool(2)"}) {
    const std::string channels = chain.substr(0, chain.find(' ')), rest = chain.substr(chain.find('|'));
    const std::string shape = " channels=16->" + channels + " input=4x8 kernel=2 stride=2 " + rest;
    Plan plan = Plan::from_text("conv_transpose2d dtype=f32 precision=tf32" + shape, on_model);
    Plan exact = Plan::from_text("conv_transpose2d dtype=f64" + shape);
    cli::Inputs inputs = cli::make_inputs(plan, 1, cli::Fill::unit);
    for (float& x : std::get<std::vector<float>>(inputs.input)) x = 1 + std::round(x * 8) / 8;
    for (float& x : std::get<std::vector<float>>(inputs.kernel)) x = 1 + std::round(x * 8) / 1024;
    cli::Execution execution(plan, inputs, {.place = {Device::cuda, 0, nullptr}});
    execution.execute();
    EXPECT_EQ(execution.defect(), "");
    const std::vector<double> got = execution.output();
    const std::vector<double> want = cli::execute(exact, cli::convert_inputs(inputs, plan, exact));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3) << plan.text() << ", element " << i;
  }
}

TEST(HopperModelRanges, OfF16AndBeyond) {
  hopper_model::set_schedule({true, 1});
  // One tile of each case: on a GPU there is time for all ways.
  check_ranges(on_model, {Device::cuda, 0, nullptr}, tiles_of, 1);
  check_who_multiplies(on_model, {Device::cuda, 0, nullptr}, tiles_of);
}

// The promise of docs/numerics.md, on small layers: on a GPU there is time for others.
TEST(HopperModelRanges, Tf32Promise) {
  hopper_model::set_schedule({true, 1});
  for (const std::string layer :
       {"2d batch=2 channels=16->24 input=3x34 kernel=4 stride=2 padding=1",
        "3d batch=2 channels=16->24 input=2x3x40 kernel=3 padding=1",
        "2d batch=2 channels=16->64 input=2x40 kernel=3 layout=channels_last->channels_first",
        "2d channels=16->24 input=3x34 kernel=3 stride=2 | layer_norm(channels, eps=1e-30)"}) {
    const std::string text = "conv_transpose" + layer.substr(0, 2) + " dtype=f32 precision=tf32" + layer.substr(2);
    const WithVariable forced("CONVT_TILE", halved_ways(tiles_of(text)).at(0));
    for (const std::string& rescaling : rescalings())
      EXPECT_LE(worst_region(layer, rescaling, 1, on_model, {Device::cuda, 0, nullptr}), 1)
          << layer << ", " << rescaling;
  }
}

}  // namespace

int run_case(const std::string& text, const std::string& tile, std::uint64_t seed) {
  if (!tile.empty()) setenv("CONVT_TILE", tile.c_str(), 1);
  double error = 0;
  const std::string defect = defect_of(text, seed, &error);
  std::printf("%s: worst error %g%s%s\n", text.c_str(), error, defect.empty() ? "" : "; ", defect.c_str());
  return defect.empty() ? 0 : 1;
}

}  // namespace convt::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string text, tile, seed = "1";
  for (int i = 1; i + 1 < argc; i += 2)
    (argv[i] == std::string("--case") ? text : argv[i] == std::string("--tile") ? tile : seed) = argv[i + 1];
  return text.empty() ? RUN_ALL_TESTS() : convt::testing::run_case(text, tile, std::stoul(seed));
}
