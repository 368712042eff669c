// SPDX-License-Identifier: Apache-2.0
// float32 in full by split operands, on the model of the hardware: every config that takes them, values that are not
// finite, and the promise of docs/numerics.md.
#include <gtest/gtest.h>

#include <algorithm>

#include "hopper_model/cases.hpp"
#include "support/environment.hpp"
#include "support/ranges.hpp"
#include "support/tf32_promise.hpp"

namespace convt::testing {
namespace {

// Rows of 64 and of 128 bytes, the last of which are not full; one chunk, and more than stay in shared memory; bands;
// both layouts; phases without taps; register epilogues, register programs, strips, folds, and stages behind.
const std::vector<std::string> shapes = {
    "1d batch=3 channels=20->40 input=100 kernel=9 stride=4 padding=2 | bias | silu",
    "1d channels=1->1 input=1 kernel=1",
    "2d channels=5->3 input=9x11 kernel=3x2 padding=1x0 layout=channels_last",
    "2d batch=2 channels=40->64 input=20x25 kernel=3x2",
    "2d channels=70->100 input=9x10 kernel=3 | bias | layer_norm(channels, affine) | relu",
    "2d channels=200->150 input=5x6 kernel=3 stride=3 padding=1 | bias | tanh | add(tensor)",
    "2d channels=300->30 input=5x6 kernel=2 stride=2 | softmax | mul(2)",
    "2d channels=600->70 input=2x2 kernel=1 stride=4 padding=1 | bias | relu",
    "3d channels=32->64 input=3x5x9 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu | mul(0.5)",
    "3d batch=2 channels=16->64 input=3x5x9 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | "
    "avg_pool(2) | gelu",
    "3d channels=32->64 input=4x5x6 kernel=5 stride=2 padding=2 | bias | max_pool(2) | max_pool(3) | sum",
    "2d batch=3 channels=64->32 input=9x17 kernel=2 stride=2 layout=channels_last | max_pool(2) | relu",
    "3d batch=2 channels=48->24 input=4x9x18 kernel=3 | bias | hardswish",
    "2d batch=2 channels=24->8 input=9x17 kernel=3 | instance_norm | leaky_relu(0.1)",
};

class HopperModelIeee : public ::testing::TestWithParam<std::string> {};

// By what planning takes, and by parts of f16 where it has a tile for them. Of the seeds, one draws values that are not
// finite.
TEST_P(HopperModelIeee, AgreesWithTheReference) {
  const std::string text = in_mode(GetParam(), "dtype=f32");
  std::vector<std::string> tiles = halved_ways(tiles_of(text));
  // A fold's tile is none of the convolution alone, which is checked too.
  tiles.resize(text.find("_pool") == std::string::npos ? std::min<std::size_t>(tiles.size(), 1) : 0);
  tiles.push_back("");
  for (const std::string& tile : tiles) {
    const WithVariable forced("CONVT_TILE", tile);
    for (const std::uint64_t seed : {0U, 1U})
      EXPECT_EQ(defect_of(text, seed, nullptr, {seed == 0}), "") << text << ", " << tile << ", seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, HopperModelIeee, ::testing::ValuesIn(shapes));

TEST(HopperModelIeeePromise, HoldsUnderRescaling) {
  for (const std::string& layer : {promised_layers()[1], promised_layers()[5], promised_norms()[1]})
    for (const std::string& tile : {std::string(), halved_ways(tiles_of(in_mode(layer, "dtype=f32"))).at(0)}) {
      const WithVariable forced("CONVT_TILE", tile);
      for (std::size_t i = tile.empty() ? 0 : 2; i < rescalings().size(); i += 4)
        EXPECT_LE(worst_region(layer, rescalings()[i], 1, on_model, {Device::cuda, 0, nullptr}, "ieee"), 1)
            << layer << ", " << tile << ", " << rescalings()[i];
    }
}

}  // namespace
}  // namespace convt::testing
