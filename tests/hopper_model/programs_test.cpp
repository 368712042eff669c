// SPDX-License-Identifier: Apache-2.0
// Register programs (src/cuda/sm90/epilogue/program.cuh) on the model of the hardware: random chains behind every way
// to store results, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "hopper_model/cases.hpp"
#include "support/environment.hpp"
#include "support/program_chains.hpp"

namespace convt::testing {
namespace {

// By the letters before a tile's size and group axis: "", t, r, p, m, w, and the same behind f for f16 in place of
// tf32.
std::map<std::string, std::string> tile_of_each_way(const std::string& text) {
  std::map<std::string, std::string> ways;
  for (const std::string& tile : tiles_of(text)) {
    const std::size_t size = tile.find_first_of("0123456789");
    ways.emplace(tile.substr(0, size - 1) + (tile[size - 1] == 'r' ? "r" : ""), tile);
  }
  return ways;
}

// Pairs of phases, alone and together with their neighbours; whole rows; many chunks; planes that slide; positions as
// columns, in runs too; bands, and channels that fill no columns; results that are no neighbours in memory.
const std::vector<std::pair<std::string, std::vector<std::string>>> shapes = {
    {"2d batch=2 channels=32->64 input=5x18 kernel=3 stride=2 padding=1 output_padding=1", {"", "t"}},
    {"2d channels=140->40 input=5x18 kernel=3 stride=2", {"", "p", "r"}},
    {"2d channels=24->150 input=3x17 kernel=4 stride=2 padding=1", {""}},
    {"3d channels=8->30 input=2x5x17 kernel=3x2x2 stride=3x2x2", {"", "r"}},
    {"3d channels=20->24 input=3x9x18 kernel=3 padding=1x1x0", {"", "m"}},
    {"2d channels=20->30 input=9x19 kernel=3 padding=1", {"", "m"}},
    {"2d channels=20->64 input=20x16 kernel=3", {"", "w"}},
    {"2d channels=12->70 input=9x21 kernel=2x3", {"", "w"}},
    {"2d channels=16->8 input=9x17 kernel=2 stride=1x2", {""}},
    {"2d channels=16->5 input=5x9 kernel=2 stride=2 layout=channels_last", {""}},
    {"2d channels=24->32 input=5x9 kernel=3 stride=2 layout=channels_first->channels_last", {""}},
};
// Where steps mix channels, and there are more than 64 of them too.
const std::vector<std::string> mixed_shapes = {
    "2d batch=2 channels=32->64 input=5x18 kernel=3 stride=2 padding=1 output_padding=1",
    "2d channels=140->60 input=5x18 kernel=3 stride=2",
    "3d channels=8->30 input=2x5x17 kernel=3x2x2 stride=3x2x2",
    "3d channels=20->24 input=3x9x18 kernel=3 padding=1x1x0",
    "2d channels=20->30 input=9x19 kernel=3 padding=1",
    "2d channels=20->50 input=20x16 kernel=3",
    "2d channels=24->128 input=3x17 kernel=4 stride=2 padding=1",
    "2d channels=24->100 input=7x9 kernel=3 layout=channels_last",
    "2d channels=16->8 input=9x17 kernel=2 stride=1x2",
};

// Behind all ways that there are. Of the seeds, every second draws values that are not finite.
void check_ways(const std::string& shape, const std::vector<std::string>& expected, std::uint64_t& seed,
                const std::function<std::string(std::uint64_t)>& chain) {
  for (const std::string& mode : modes) {
    // A case's convolution is checked alone as well, on the same tile.
    const std::string plain = in_mode(shape, mode);
    const auto ways = tile_of_each_way(plain);
    for (const std::string& way : expected)
      EXPECT_TRUE(ways.contains(way) || ways.contains("f" + way)) << plain << ", way " << way;
    const auto check = [&](const std::string& text, const std::string& tile) {
      const WithVariable forced("CONVT_TILE", tile);
      EXPECT_EQ(defect_of(text, seed, nullptr, {seed % 4 < 2}), "") << text << ", tile " << tile << ", seed " << seed;
    };
    check(plain + chain(++seed), "");
    for (const auto& [way, tile] : ways) {
      const std::string text = plain + chain(++seed);
      if (std::ranges::count(tiles_of(text), tile) > 0) check(text, tile);
    }
  }
}

class HopperModelPrograms : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HopperModelPrograms, OfSingleValues) {
  const auto& [shape, expected] = shapes[GetParam()];
  std::uint64_t seed = 100 * GetParam();
  check_ways(shape, expected, seed, [](std::uint64_t draw) { return draw_chain(pointwise, draw); });
}
TEST_P(HopperModelPrograms, OfWholeTensors) {
  std::uint64_t seed = 100 * GetParam();
  check_ways(shapes[GetParam()].first, {}, seed, [](std::uint64_t draw) { return draw_chain(with_tensors, draw); });
}
TEST_P(HopperModelPrograms, OfKeptValues) {
  std::uint64_t seed = 100 * GetParam();
  check_ways(shapes[GetParam()].first, {}, seed, [](std::uint64_t draw) { return draw_kept(draw, false); });
}
INSTANTIATE_TEST_SUITE_P(Shapes, HopperModelPrograms, ::testing::Range(std::size_t{0}, shapes.size()));

class HopperModelMixingPrograms : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HopperModelMixingPrograms, AgreeWithTheReference) {
  std::uint64_t seed = 100 * GetParam();
  for (int draw = 0; draw < 2; ++draw) check_ways(mixed_shapes[GetParam()], {}, seed, draw_mixing);
}
TEST_P(HopperModelMixingPrograms, KeepValues) {
  std::uint64_t seed = 100 * GetParam();
  check_ways(mixed_shapes[GetParam()], {}, seed, [](std::uint64_t draw) { return draw_kept(draw, true); });
}
INSTANTIATE_TEST_SUITE_P(Shapes, HopperModelMixingPrograms, ::testing::Range(std::size_t{0}, mixed_shapes.size()));

// One launch for values that wait one at a time; more for two at once, or with a norm between.
TEST(HopperModelProgram, KeepsValuesInRegisters) {
  const auto is_whole = [](const std::string& chain, const std::string& mode) {
    const std::string text = in_mode("2d channels=16->40 input=3x9 kernel=2 stride=2" + chain, mode);
    const std::string explained = Plan::from_text(text, on_model).explain();
    return explained.find("the chain is a register program") != std::string::npos &&
           explained.find("chain of") == std::string::npos;
  };
  for (const std::string& mode : modes) {
    EXPECT_TRUE(is_whole(" | bias | tanh", mode));
    EXPECT_TRUE(is_whole(" | bias | keep(a) | hardswish | mul(a)", mode)) << mode;
    EXPECT_TRUE(is_whole(" | bias | keep(a) | tanh | add(a) | keep(b) | sigmoid | mul(b) | add(tensor)", mode)) << mode;
    EXPECT_TRUE(is_whole(" | layer_norm(channels) | keep(a) | sigmoid | mul(a)", mode)) << mode;
    EXPECT_TRUE(is_whole(" | tanh | add(tensor) | mul(conv)", mode)) << mode;
    EXPECT_FALSE(is_whole(" | bias | keep(a) | tanh | keep(b) | sigmoid | mul(b) | add(a)", mode)) << mode;
    EXPECT_FALSE(is_whole(" | bias | keep(a) | softmax | mul(a)", mode)) << mode;
  }
}

// Each op alone, in each mode; and more per-channel steps than shared memory has room for.
TEST(HopperModelProgram, HasEveryOp) {
  std::vector<std::string> chains;
  for (const std::string& op : pointwise) chains.push_back(" | " + op + " | tanh");
  for (const std::string& op : more_pointwise) chains.push_back(" | " + op + " | tanh");
  chains.push_back(" | rms_norm(channels, eps=0.25) | tanh");
  chains.push_back(" | bias | tanh | mul(channel) | silu | bias | prelu | sub(channel) | elu | batch_norm(affine)");
  chains.push_back(" | sigmoid | mul(channel) | silu | bias | prelu | sub(channel) | elu | batch_norm(affine)");
  for (const std::string& chain : chains)
    for (const std::string& mode : modes) {
      const std::string text = in_mode("2d channels=16->40 input=3x9 kernel=2 stride=2" + chain, mode);
      EXPECT_EQ(defect_of(text, 2, nullptr, {true}), "") << text;
    }
  // A pixel without taps is 0, and 0 / sqrt(0 + eps) is too.
  const std::string sparse = in_mode("2d channels=16->32 input=8 kernel=1 stride=2 | rms_norm(channels)", "dtype=f16");
  EXPECT_EQ(defect_of(sparse, 2, nullptr, {true}), "");
}

}  // namespace
}  // namespace convt::testing
