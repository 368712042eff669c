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
    {"inputs that f16 takes for 0", 1e-9F, 1},
    {"inputs far below", 1e-20F, 6e3F},
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

// Of tiles with f16 in place of tf32, the first of each way: those that begin with the same letters.
inline std::vector<std::string> halved_ways(const std::vector<std::string>& tiles) {
  std::vector<std::string> first, ways;
  for (const std::string& tile : tiles) {
    const std::string way = tile.substr(0, tile.find_first_of("0123456789"));
    if (way[0] != 'f' || std::find(ways.begin(), ways.end(), way) != ways.end()) continue;
    ways.push_back(way);
    first.push_back(tile);
  }
  return first;
}

// tiles_of(text): names of a case's tiles, all of them. In so many ways of each case at most.
template <class TilesOf>
void check_ranges(const PlanOptions& options, const cli::Place& place, const TilesOf& tiles_of,
                  std::size_t most_ways = 100) {
  for (const std::string& shape : ranged_shapes) {
    const std::string kind = "conv_transpose" + shape.substr(0, 2), rest = shape.substr(2);
    const std::string text = kind + " dtype=f32 precision=tf32" + rest;
    const std::string layout = " layout=channels_last->channels_first";  // of inputs: they are converted
    std::string same = rest;
    if (const auto at = same.find(layout); at != std::string::npos) same.erase(at, layout.size());
    Plan exact = Plan::from_text(kind + " dtype=f64" + same);
    std::vector<std::string> ways = halved_ways(tiles_of(text));
    if (ways.size() > most_ways) ways.resize(most_ways);
    EXPECT_FALSE(ways.empty()) << text;
    for (const std::string& tile : ways) {
      const WithVariable forced("CONVT_TILE", tile);
      Plan plan = Plan::from_text(text, options);
      EXPECT_NE(plan.explain().find("f16 in place of tf32"), std::string::npos) << plan.explain();
      for (const Range& range : ranges)
        EXPECT_LT(error_in(range, plan, exact, place), 6e-4) << text << ", " << tile << ", " << range.name;
    }
  }
}

// 1 + 2^-11 is as far from one number of 11 bits as from another: tf32 takes the larger, f16 the one that is even. So a
// sum of such numbers tells who multiplied: f16, unless some input or weight is too large for it, or all are too small.
template <class TilesOf>
void check_who_multiplies(const PlanOptions& options, const cli::Place& place, const TilesOf& tiles_of) {
  const std::string text =
      "conv_transpose2d dtype=f32 precision=tf32 batch=2 channels=32->64 input=9x16 kernel=2 stride=2";
  for (const std::string& tile : halved_ways(tiles_of(text))) {
    const WithVariable forced("CONVT_TILE", tile);
    Plan plan = Plan::from_text(text, options);
    cli::Inputs inputs = cli::make_inputs(plan, 3, cli::Fill::unit);
    auto& input = std::get<std::vector<float>>(inputs.input);
    auto& kernel = std::get<std::vector<float>>(inputs.kernel);
    const auto sum_with = [&](float x, float one, float weight) {
      input.assign(input.size(), x);
      if (one != 0) input[1] = one;  // in the same tile as the first output, which it does not belong to
      kernel.assign(kernel.size(), weight);
      cli::Execution execution(plan, inputs, {.place = place});
      execution.execute();
      EXPECT_EQ(execution.defect(), "");
      return execution.output().front() / weight / 32;
    };
    constexpr float tie = 1 + 0x1p-11F, down = 1, up = 1 + 0x1p-10F;
    EXPECT_EQ(sum_with(tie, 0, 1), down) << tile;
    EXPECT_EQ(sum_with(tie, 65504, 1), down) << tile;
    EXPECT_EQ(sum_with(tie, 65536, 1), up) << tile;
    // Filters are scaled, as far as floats go.
    EXPECT_EQ(sum_with(tie, 0, 0x1p-13F), down) << tile;
    EXPECT_EQ(sum_with(tie, 0, 0x1p-90F), down) << tile;
    EXPECT_EQ(sum_with(tie, 0, 0x1p90F), down) << tile;
    EXPECT_EQ(sum_with(tie, 0, 0x1p-110F), up) << tile;
    EXPECT_EQ(sum_with(0x1p-15F * tie, 0, 1), 0x1p-15F * down) << tile;
    EXPECT_EQ(sum_with(0x1p-16F * tie, 0, 1), 0x1p-16F * up) << tile;
    EXPECT_EQ(sum_with(0, 0, 1), 0) << tile;
  }
}

}  // namespace convt::testing
