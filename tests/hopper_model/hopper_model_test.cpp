// SPDX-License-Identifier: Apache-2.0
// The Hopper engine on a model of the hardware (machine.hpp), with the checks of `convt verify`. Of one case:
//   hopper_model_test --case "conv_transpose2d dtype=f16 channels=8->8 input=4x4 kernel=3" [--tile h1x8x32] [--seed 1]
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "hopper_model/machine.hpp"
#include "support/environment.hpp"

namespace convt::testing {
namespace {

const std::string engine_name = "cuda-sm90";
const PlanOptions on_model{.device = Device::cuda, .engine = engine_name};

// By both schedules. "", or what is wrong.
std::string defect_of(const std::string& text, std::uint64_t seed, double* error = nullptr) {
  for (const bool late : {true, false}) {
    hopper_model::set_schedule({late, seed});
    std::string defect;
    try {
      const cli::CaseReport report = cli::check_case(text, seed, on_model);
      defect = report.engine == engine_name ? report.defect : "it ran on " + report.engine;
      if (error != nullptr) *error = std::max(*error, report.error);
    } catch (const Error& failure) {
      defect = failure.what();
    }
    if (!defect.empty()) return (late ? "late: " : "early: ") + defect;
  }
  return "";
}

const std::vector<std::string> modes = {"dtype=f32 precision=tf32", "dtype=f16", "dtype=bf16"};

std::string in_mode(const std::string& shape, const std::string& mode) {
  return "conv_transpose" + shape.substr(0, 2) + " " + mode + shape.substr(2);
}

class Cases : public ::testing::TestWithParam<std::string> {};

// Channels that fill rows and columns and that do not, one chunk and several, phases with and without taps, short
// chains and others, pools that fold and that do not.
TEST_P(Cases, AgreeWithTheReference) {
  for (const std::string& mode : modes) {
    const std::string text = in_mode(GetParam(), mode);
    EXPECT_EQ(defect_of(text, 1), "") << text;
  }
}

INSTANTIATE_TEST_SUITE_P(HopperModel, Cases,
                         ::testing::Values("1d channels=1->1 input=1 kernel=1",
                                           "2d channels=16->8 input=8x8 kernel=1"));

// What a plan explains names all tiles, if one is asked for that there is not.
std::vector<std::string> tiles_of(const std::string& text) {
  const WithVariable all("CONVT_TILE", "none");
  std::istringstream lines(Plan::from_text(text, {.device = Device::cuda}).explain());
  std::vector<std::string> tiles;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string engine, tile;
    words >> engine >> tile;
    if (engine == engine_name && line.find("CONVT_TILE asks") != std::string::npos) tiles.push_back(tile);
  }
  return tiles;
}

TEST(HopperModel, EveryTile) {
  for (const std::string& mode : {modes[0], modes[2]})
    for (const std::string shape : {"3d channels=32->24 input=2x9x9 kernel=3 padding=1"}) {
      const std::string text = in_mode(shape, mode);
      const std::vector<std::string> tiles = tiles_of(text);
      EXPECT_GE(tiles.size(), 6U) << text;
      for (const std::string& tile : tiles) {
        const WithVariable forced("CONVT_TILE", tile);
        EXPECT_EQ(defect_of(text, 1), "") << text << ", tile " << tile;
      }
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
