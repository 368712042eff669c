// SPDX-License-Identifier: Apache-2.0
// The Hopper engine: shapes at the edges of its tiles, with the checks of `convt verify`; every tile that there is.
#include <algorithm>
#include <sstream>

#include "check.hpp"
#include "gpu/support.hpp"
#include "support/environment.hpp"
#include "support/ranges.hpp"
#include "support/tf32_promise.hpp"

namespace convt::testing {
namespace {

const std::string engine_name = "cuda-sm90";

class Hopper : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    cudaDeviceProp device{};
    ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    if (device.major != 9 || device.minor != 0) GTEST_SKIP() << "no GPU of compute capability 9.0";
  }
};

const std::vector<std::string> modes = {"dtype=f32 precision=tf32", "dtype=f16", "dtype=bf16", "dtype=f32"};

// Channels that fill rows and columns and that do not, one chunk and several, phases with and without taps, short
// chains and others, pools that fold and that do not.
const std::vector<std::string> shapes = {
    "1d batch=3 channels=20->40 input=300 kernel=9 stride=4 padding=2 | bias | silu",
    "1d channels=1->1 input=1 kernel=1",
    "2d channels=16->8 input=8x8 kernel=1",
    "2d batch=2 channels=64->64 input=37x45 kernel=3x7",
    "2d batch=2 channels=48->24 input=9x11 kernel=3",
    "2d channels=5->3 input=9x11 kernel=3x2 padding=1x0 layout=channels_last",
    "2d channels=200->150 input=9x10 kernel=3 stride=3 padding=1 | bias | relu",
    "2d channels=700->260 input=9x10 kernel=3 stride=2 padding=1 | softmax",
    "2d channels=600->70 input=2x2 kernel=1 stride=4 padding=1 | bias | relu",  // no output has a tap
    "2d batch=2 channels=8->200 input=128x64 kernel=2 stride=2",
    "2d batch=2 channels=8->200 input=128x64 kernel=2 stride=2 | gelu | mul(5)",
    "2d channels=33->65 input=9x10 kernel=2 stride=4 padding=1 dilation=3 | instance_norm | relu",
    "2d batch=2 channels=40->20 input=20x33 kernel=5 stride=2x3 | bias | layer_norm(channels, affine) | gelu | mul(3)",
    "3d batch=2 channels=32->64 input=5x9x11 kernel=4 stride=2 padding=1",
    "3d batch=2 channels=32->64 input=5x9x12 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "3d batch=2 channels=32->64 input=6x10x11 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "3d batch=2 channels=32->64 input=6x10x16 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu | mul(0.5)",
    "2d batch=28 channels=32->64 input=64 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",  // several tiles for every multiprocessor
    "2d batch=60 channels=32->30 input=35x45 kernel=2 stride=2 | max_pool(2) | bias",  // as well
    "3d batch=2 channels=32->64 input=7x10x11 kernel=5 stride=2 padding=2 | bias | max_pool(2) | max_pool(3) | sum",
    "2d batch=2 channels=24->30 input=21x19 kernel=3 stride=3 padding=2 | relu | max_pool(3) | layer_norm(channels)",
    "2d batch=2 channels=24->30 input=21x19 kernel=2 stride=3 padding=0 output_padding=1 | relu | avg_pool(3) | silu",
    "2d batch=2 channels=24->30 input=21x19 kernel=3 stride=2 | relu | max_pool(2, stride=3) | tanh",
    "3d batch=2 channels=48->24 input=5x19x18 kernel=3",
    "3d channels=48->20 input=7x9x8 kernel=3 padding=1 | bias | layer_norm(channels) | relu",
    "3d channels=16->64 input=4x9x20 kernel=1x3x2 padding=0x1x1 | gelu",
    "3d channels=80->24 input=5x9x8 kernel=3 layout=channels_last",
    "2d batch=3 channels=64->96 input=5x9 kernel=2 stride=2 layout=channels_last | bias | relu",
    "3d batch=2 channels=320->70 input=3x4x5 kernel=2 stride=2",
    "2d channels=300->130 input=15x20 kernel=2 stride=2 | bias | relu",
    "2d batch=2 channels=100->64 input=17x19 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "3d channels=300->70 input=3x4x5 kernel=3x2x2 stride=3x2x4 | bias",
    "3d batch=9 channels=24->64 input=6x9x18 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "2d batch=9 channels=90->40 input=33x66 kernel=3 stride=2 padding=1 output_padding=1 | bias | relu",
    "3d batch=2 channels=24->96 input=5x9x18 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
    "2d batch=9 channels=70->100 input=33x34 kernel=3 | bias | layer_norm(channels, affine) | relu",
    "3d batch=2 channels=20->128 input=6x10x16 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "2d channels=40->128 input=15x17 kernel=2 stride=3 | layer_norm(channels) | softmax",
    "2d batch=2 channels=8->300 input=15x17 kernel=2 stride=2 | bias | layer_norm(channels) | gelu",
    "1d batch=2 channels=4->500 input=90 kernel=3 stride=2 | softmax | layer_norm(channels) | add(1)",
    "3d channels=48->24 input=20x12x18 kernel=5",
    "3d batch=5 channels=32->64 input=9x20x32 kernel=3 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "3d batch=2 channels=16->24 input=9x33x64 kernel=3 stride=2 padding=1",
    "2d batch=9 channels=40->70 input=67x125 kernel=4 stride=2 padding=1 | bias | relu",
    "3d batch=3 channels=8->30 input=7x19x37 kernel=3x2x5 stride=3x1x2 padding=1x0x2 | relu",
};

void check(const std::string& text, std::uint64_t seed, cudaStream_t stream) {
  cli::CaseReport report;
  try {
    report = cli::check_case(text, seed, on_gpu, stream);
  } catch (const Error& error) {
    report.defect = error.what();
  }
  EXPECT_EQ(report.defect, "") << text << ", seed " << seed;
  EXPECT_EQ(report.engine, engine_name) << text;
}

TEST_F(Hopper, Shapes) {
  std::vector<std::string> texts;
  for (const std::string& mode : modes)
    for (const std::string& shape : shapes)
      texts.push_back("conv_transpose" + shape.substr(0, 2) + " " + mode + shape.substr(2));
  constexpr std::size_t seeds = 6;  // with and without values that are not finite
  in_parallel(texts.size() * seeds,
              [&](std::size_t i, cudaStream_t stream) { check(texts[i / seeds], i % seeds, stream); });
}

// Names of the engine's tiles, whether or not they can be used, from what a plan explains.
std::vector<std::string> tiles_of(const std::string& text) {
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

TEST_F(Hopper, EveryTile) {
  const Stream stream;
  for (const std::string& mode : {modes[0], modes[2], modes[3]})
    for (const std::string shape :
         {"3d channels=32->24 input=9x20x35 kernel=3 padding=1", "2d channels=140->64 input=9x19 kernel=2 stride=2",
          "3d channels=16->32 input=9x17x33 kernel=3 stride=2 padding=1 | bias | relu",
          "3d channels=20->40 input=5x9x18 kernel=4 stride=2 padding=1", "3d channels=20->50 input=3x20x17 kernel=3",
          "2d channels=24->70 input=30x67 kernel=3x5 | bias | gelu", "2d channels=8->64 input=40x65 kernel=4x2"}) {
      const std::string text = "conv_transpose" + shape.substr(0, 2) + " " + mode + shape.substr(2);
      const std::vector<std::string> tiles = tiles_of(text);
      EXPECT_GE(tiles.size(), 6U) << text;
      for (const std::string& tile : tiles) {
        const WithVariable forced("CONVT_TILE", tile);
        for (const std::uint64_t seed : {1U, 2U}) check(text, seed, stream);
      }
    }
}

// Two tiles along w and two bands, which 132 blocks are a multiple of; the last round is not whole.
TEST_F(Hopper, BlocksTakeTurns) {
  const Stream stream;
  for (const std::string& mode : {modes[0], modes[2]})
    for (const std::string chain : {"", " | bias | relu"}) {
      const std::string text = "conv_transpose2d " + mode + " batch=9 channels=8->100 input=135x30 kernel=3" + chain;
      const std::vector<std::string> tiles = tiles_of(text);
      for (const std::string tile : {"wh1x16x16", "fwh1x16x16"}) {  // the second: f16 in place of tf32
        if (tile[0] == 'f' && mode != modes[0]) continue;
        EXPECT_EQ(std::count(tiles.begin(), tiles.end(), tile), 1) << text;
        const WithVariable forced("CONVT_TILE", tile);
        for (const std::uint64_t seed : {1U, 2U, 3U}) check(text, seed, stream);
      }
    }
}

TEST_F(Hopper, RangesOfF16AndBeyond) {
  const Stream stream;
  check_ranges(on_gpu, place_of(stream), tiles_of);
  check_who_multiplies(on_gpu, place_of(stream), tiles_of);
}

// The promise of docs/numerics.md, in every rescaling, by the tile that planning takes and by the first of each way.
TEST_F(Hopper, Tf32Promise) {
  struct Run {
    std::string layer, rescaling;
    std::uint64_t seed;
  };
  std::vector<Run> runs;
  for (const auto* const layers : {&promised_layers(), &promised_norms()})
    for (const std::string& layer : *layers)
      for (const std::string& rescaling : rescalings())
        for (const std::uint64_t seed : {1U, 2U, 3U}) runs.push_back({layer, rescaling, seed});
  in_parallel(runs.size(), [&](std::size_t i, cudaStream_t stream) {
    const Run& run = runs[i];
    EXPECT_LE(worst_region(run.layer, run.rescaling, run.seed, on_gpu, place_of(stream)), 1)
        << run.layer << ", " << run.rescaling << ", seed " << run.seed;
  });
}

TEST_F(Hopper, Tf32PromiseInEveryWay) {
  for (const std::string& layer : promised_layers()) {
    const std::string text = "conv_transpose" + layer.substr(0, 2) + " dtype=f32 precision=tf32" + layer.substr(2);
    for (const std::string& tile : halved_ways(tiles_of(text))) {
      const WithVariable forced("CONVT_TILE", tile);
      in_parallel(rescalings().size(), [&](std::size_t i, cudaStream_t stream) {
        EXPECT_LE(worst_region(layer, rescalings()[i], 4, on_gpu, place_of(stream)), 1)
            << layer << ", " << tile << ", " << rescalings()[i];
      });
    }
  }
}

// float32 in full, in every rescaling.
TEST_F(Hopper, IeeePromise) {
  std::vector<std::pair<std::string, std::string>> runs;
  for (const auto* const layers : {&promised_layers(), &promised_norms()})
    for (const std::string& layer : *layers)
      for (const std::string& rescaling : rescalings()) runs.emplace_back(layer, rescaling);
  constexpr std::size_t seeds = 2;
  in_parallel(runs.size() * seeds, [&](std::size_t i, cudaStream_t stream) {
    const auto& [layer, rescaling] = runs[i / seeds];
    EXPECT_LE(worst_region(layer, rescaling, i % seeds, on_gpu, place_of(stream), "ieee"), 1)
        << layer << ", " << rescaling << ", seed " << i % seeds;
  });
}

// The same by parts of f16, in each way that planning has.
TEST_F(Hopper, IeeePromiseInEveryWay) {
  for (const std::string& layer : promised_layers()) {
    const std::string text = "conv_transpose" + layer.substr(0, 2) + " dtype=f32" + layer.substr(2);
    for (const std::string& tile : halved_ways(tiles_of(text))) {
      const WithVariable forced("CONVT_TILE", tile);
      EXPECT_NE(gpu_plan(text).explain().find("f16, three products"), std::string::npos) << text << ", " << tile;
      in_parallel(rescalings().size(), [&](std::size_t i, cudaStream_t stream) {
        EXPECT_LE(worst_region(layer, rescalings()[i], 4, on_gpu, place_of(stream), "ieee"), 1)
            << layer << ", " << tile << ", " << rescalings()[i];
      });
    }
  }
}

// An option, and an environment variable, leave float32 to plain multiply-adds.
TEST_F(Hopper, IeeeCanBePlain) {
  const std::string text = "conv_transpose2d dtype=f32 batch=32 channels=64->64 input=128 kernel=3 stride=2";
  const auto engine = [&](const PlanOptions& options) { return Plan::from_text(text, options).engine(); };
  EXPECT_EQ(engine(on_gpu), engine_name);
  EXPECT_NE(engine({.device = Device::cuda, .plain_ieee = true}), engine_name);
  const WithVariable plain("CONVT_IEEE", "plain");
  EXPECT_NE(engine(on_gpu), engine_name);
  const WithVariable wrong("CONVT_IEEE", "f8");
  EXPECT_THROW(gpu_plan(text), Error);
}

// An option, and an environment variable, keep f16 from taking the place of tf32, and explain says what was done.
TEST_F(Hopper, Tf32ByF16CanBeSwitchedOff) {
  const std::string text =
      "conv_transpose2d dtype=f32 precision=tf32 batch=32 channels=64->64 input=128 kernel=3 stride=2";
  const auto uses_f16 = [&](const PlanOptions& options) {
    return Plan::from_text(text, options).explain().find("f16 in place of tf32") != std::string::npos;
  };
  EXPECT_TRUE(uses_f16(on_gpu));
  EXPECT_FALSE(uses_f16({.device = Device::cuda, .native_tf32 = true}));
  const WithVariable native("CONVT_TF32", "native");
  EXPECT_FALSE(uses_f16(on_gpu));
  const WithVariable wrong("CONVT_TF32", "f8");
  EXPECT_THROW(gpu_plan(text), Error);
}

}  // namespace
}  // namespace convt::testing
