// SPDX-License-Identifier: Apache-2.0
// Floats that f16 can take the place of, and floats that it cannot: the Hopper engine multiplies f16 in place of tf32
// where it can, and must notice where not.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "execution.hpp"
#include "support/environment.hpp"

namespace convt::testing {

struct Range {
  std::string name;
  float input = 1, kernel = 1;          // all values are times this
  float one_input = 0, one_kernel = 0;  // if not 0: instead of one value
};
inline const std::vector<Range> ranges = {
    {"as they are"},
    {"small", 0x1p-9F, 0x1p-9F},
    {"large", 0x1p14F, 0x1p14F},
    {"inputs too large", 1e6F, 1},
    {"inputs too small", 1e-6F, 1},
    {"inputs that f16 has not at all", 1e-20F, 1e10F},
    {"weights too large", 1, 1e6F},
    {"weights too small", 1, 1e-6F},
    {"an input too large", 1, 1, 1e5F, 0},
    {"a weight too large", 1, 1, 0, -1e5F},
};

// One for each way that the engine has.
inline const std::vector<std::string> ranged_shapes = {
    "2d batch=2 channels=32->64 input=9x16 kernel=4 stride=2 padding=1",
    "2d channels=24->40 input=9x17 kernel=3 stride=2 padding=1 | bias | relu",
    "3d batch=2 channels=48->24 input=5x9x18 kernel=3",
    "2d batch=2 channels=64->64 input=20x25 kernel=3 | gelu",
    "3d channels=16->64 input=3x5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels) | avg_pool(2)",
    "3d channels=32->64 input=3x5x8 kernel=5 stride=2 padding=2 | bias | max_pool(2)",
    "2d channels=200->70 input=5x6 kernel=3 stride=2",
    "2d batch=2 channels=32->100 input=5x6 kernel=3 stride=2 layout=channels_last->channels_first | "
    "layer_norm(channels)",
    "2d channels=16->32 input=9x20 kernel=3 layout=channels_last->channels_first",
};

// Relative, of the whole result; the plan is one of float32, the other the same in float64.
inline double error_in(const Range& range, Plan& plan, Plan& exact, const cli::Place& place) {
  cli::Inputs inputs = cli::make_inputs(plan, 3, cli::Fill::unit);
  const auto change = [](cli::Tensor& tensor, float times, float one) {
    auto& values = std::get<std::vector<float>>(tensor);
    for (float& x : values) x = (x - 0.25F) * times;
    if (one != 0) values[values.size() / 3] = one;
  };
  change(inputs.input, range.input, range.one_input);
  change(inputs.kernel, range.kernel, range.one_kernel);
  cli::Execution execution(plan, inputs, {.place = place});
  execution.execute();
  EXPECT_EQ(execution.defect(), "");
  const std::vector<double> got = execution.output();
  const std::vector<double> want = cli::execute(exact, cli::convert_inputs(inputs, plan, exact));
  double apart = 0, all = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    apart += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  return std::sqrt(apart / all);
}

// tiles: names of a case's, all of them.
template <class TilesOf>
void check_ranges(const PlanOptions& options, const cli::Place& place, const TilesOf& tiles_of) {
  for (const std::string& shape : ranged_shapes) {
    const std::string kind = "conv_transpose" + shape.substr(0, 2), rest = shape.substr(2);
    const std::string text = kind + " dtype=f32 precision=tf32" + rest;
    const std::vector<std::string> tiles = tiles_of(text);
    const auto halved = std::find_if(tiles.begin(), tiles.end(), [](const auto& tile) { return tile[0] == 'f'; });
    ASSERT_NE(halved, tiles.end()) << text;
    const WithVariable forced("CONVT_TILE", *halved);
    Plan plan = Plan::from_text(text, options);
    const std::string layout = " layout=channels_last->channels_first";  // of inputs: they are converted
    std::string same = rest;
    if (const auto at = same.find(layout); at != std::string::npos) same.erase(at, layout.size());
    Plan exact = Plan::from_text(kind + " dtype=f64" + same);
    EXPECT_NE(plan.explain().find("f16 in place of tf32"), std::string::npos) << plan.explain();
    for (const Range& range : ranges)
      EXPECT_LT(error_in(range, plan, exact, place), 6e-4) << plan.text() << ", " << range.name;
  }
}

}  // namespace convt::testing
