// SPDX-License-Identifier: Apache-2.0
// Register programs of the Hopper engine: random chains behind every way to store results, with the checks of
// `convt verify`.
#include <algorithm>
#include <map>
#include <sstream>

#include "check.hpp"
#include "gpu/support.hpp"
#include "support/environment.hpp"
#include "support/program_chains.hpp"

namespace convt::testing {
namespace {

const std::string engine_name = "cuda-sm90";

class HopperPrograms : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    cudaDeviceProp device{};
    ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    if (device.major != 9 || device.minor != 0) GTEST_SKIP() << "no GPU of compute capability 9.0";
  }

  // Each shape in each mode, with a few chains: on the tile that the plan takes, and on one of every way.
  template <class Draw>
  void check_shapes(const std::vector<std::string>& shapes, const Draw& draw) {
    std::uint64_t seed = 0;
    const Stream stream;
    for (const std::string& shape : shapes)
      for (const std::string mode : {"dtype=f32 precision=tf32", "dtype=f16", "dtype=bf16"}) {
        // A case's convolution is checked alone as well, on the same tile.
        const std::string plain = "conv_transpose" + shape.substr(0, 2) + " " + mode + shape.substr(2);
        const auto ways = tile_of_each_way(plain);
        for (int i = 0; i < draws; ++i) {
          const std::string any = plain + draw(++seed);
          check(any, "", seed, stream);
          for (const auto& [way, tile] : ways) {
            const std::string text = plain + draw(++seed);
            if (std::ranges::count(tiles_of(text), tile) > 0) check(text, tile, seed, stream);
          }
        }
      }
  }

 private:
  static constexpr int draws = 1;  // the reference takes long

  static void check(const std::string& text, const std::string& tile, std::uint64_t seed, cudaStream_t stream) {
    const WithVariable forced("CONVT_TILE", tile);
    cli::CaseReport report;
    try {
      report = cli::check_case(text, seed, on_gpu, stream);
    } catch (const Error& error) {
      report.defect = error.what();
    }
    EXPECT_EQ(report.defect, "") << text << ", tile " << tile << ", seed " << seed;
    EXPECT_EQ(report.engine, engine_name) << text;
  }

  static std::vector<std::string> tiles_of(const std::string& text) {
    const WithVariable all("CONVT_TILE", "none");
    std::istringstream lines(gpu_plan(text).explain());
    std::vector<std::string> tiles;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string engine, tile;
      words >> engine >> tile;
      if (engine == engine_name && line.find("CONVT_TILE asks") != std::string::npos) tiles.push_back(tile);
    }
    return tiles;
  }
  // By the letters before a tile's size and group axis, which say the way.
  static std::map<std::string, std::string> tile_of_each_way(const std::string& text) {
    std::map<std::string, std::string> ways;
    for (const std::string& tile : tiles_of(text)) {
      const std::size_t size = tile.find_first_of("0123456789");
      ways.emplace(tile.substr(0, size - 1) + (tile[size - 1] == 'r' ? "r" : ""), tile);
    }
    return ways;
  }
};

const std::vector<std::string> shapes = {
    "2d batch=9 channels=32->64 input=33x66 kernel=3 stride=2 padding=1 output_padding=1",
    "2d batch=3 channels=140->40 input=25x38 kernel=3 stride=2",
    "2d channels=24->150 input=23x37 kernel=4 stride=2 padding=1",
    "3d batch=2 channels=8->30 input=7x15x37 kernel=3x2x2 stride=3x2x2",
    "3d batch=2 channels=20->24 input=9x29x38 kernel=3 padding=1x1x0",
    "2d batch=2 channels=20->30 input=59x69 kernel=3 padding=1",
    "2d batch=9 channels=20->64 input=60x66 kernel=3",
    "2d batch=2 channels=12->70 input=39x51 kernel=2x3",
    "2d channels=16->8 input=29x47 kernel=2 stride=1x2",
    "2d batch=2 channels=16->5 input=25x29 kernel=2 stride=2 layout=channels_last",
    "2d channels=24->32 input=25x39 kernel=3 stride=2 layout=channels_first->channels_last",
};
// Where steps mix channels, and there are more than 64 of them too.
const std::vector<std::string> mixed_shapes = {
    "2d batch=9 channels=32->64 input=33x66 kernel=3 stride=2 padding=1 output_padding=1",
    "2d channels=140->60 input=25x38 kernel=3 stride=2",
    "3d channels=8->30 input=5x15x37 kernel=3x2x2 stride=3x2x2",
    "3d batch=2 channels=20->24 input=9x29x38 kernel=3 padding=1x1x0",
    "2d batch=9 channels=20->50 input=60x66 kernel=3",
    "2d batch=2 channels=24->128 input=23x37 kernel=4 stride=2 padding=1",
    "2d channels=24->100 input=27x39 kernel=3 layout=channels_last",
};

TEST_F(HopperPrograms, OfSingleValues) {
  check_shapes(shapes, [](std::uint64_t seed) { return draw_chain(pointwise, seed); });
}
TEST_F(HopperPrograms, OfOneMore) {
  check_shapes(shapes,
               [](std::uint64_t seed) { return " | " + more_pointwise[seed % more_pointwise.size()] + " | tanh"; });
}
TEST_F(HopperPrograms, OfWholeTensors) {
  check_shapes(shapes, [](std::uint64_t seed) { return draw_chain(with_tensors, seed); });
}
TEST_F(HopperPrograms, OfKeptValues) {
  check_shapes(shapes, [](std::uint64_t seed) { return draw_kept(seed, false); });
  check_shapes(mixed_shapes, [](std::uint64_t seed) { return draw_kept(seed, true); });
}
TEST_F(HopperPrograms, OfMixedChannels) { check_shapes(mixed_shapes, draw_mixing); }

}  // namespace
}  // namespace convt::testing
