// SPDX-License-Identifier: Apache-2.0
// Counted work: the five benchmarks by their known totals, small cases by brute force.
#include "plan/work.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "epilogue/text.hpp"
#include "problem/named.hpp"

namespace convt::core {
namespace {

TEST(Work, BenchmarkTotals) {
  struct Row {
    const char* slug;
    double needed, scattered;  // GFLOP
  };
  for (const Row& row :
       {Row{"conv-transpose-3d-asym-input-sq-kernel", 440.3, 440.3},
        Row{"conv-transpose-2d-square-input-asym-kernel", 360.8, 360.8},
        Row{"conv-transpose3d-max-max-sum", 216.8, 268.4}, Row{"conv-transpose3d-layernorm-gelu-scaling", 129.0, 137.4},
        Row{"conv-transpose3d-sum-layernorm-avgpool-gelu", 55.6, 58.0}}) {
    const NamedProblem& problem = named_problem(row.slug);
    const Work work = count_work(validate(parse_problem(example_case(problem, problem.benchmark))));
    EXPECT_NEAR(2e-9 * work.needed, row.needed, 0.06) << row.slug;
    EXPECT_NEAR(2e-9 * work.scattered, row.scattered, 0.06) << row.slug;
  }
}

// Along one axis, with one channel: which conv outputs reach the result, found by following them forward.
double brute_force(const Descriptor& d) {
  const auto n = d.conv.space[2];
  double needed = 0;
  for (std::int64_t o = 0; o < n; ++o) {
    std::vector<bool> live(static_cast<std::size_t>(n));
    live[static_cast<std::size_t>(o)] = true;
    for (const Stage& stage : d.stages) {
      const auto* pool = std::get_if<ops::MaxPool>(&stage.op);
      const auto out = static_cast<std::size_t>(stage.out.space[2]);
      std::vector<bool> next(out);
      for (std::size_t j = 0; j < out; ++j) {
        if (pool == nullptr) {
          const bool any = std::find(live.begin(), live.end(), true) != live.end();
          next[j] = std::holds_alternative<ops::InstanceNorm>(stage.op) ? any : live[j];
          continue;
        }
        const Windows w = windows_of(*pool, stage.in);
        for (std::int64_t t = 0; t < w.size[2]; ++t) {
          const std::int64_t i = static_cast<std::int64_t>(j) * w.stride[2] - w.padding[2] + t;
          if (i >= 0 && i < stage.in.space[2] && live[static_cast<std::size_t>(i)]) next[j] = true;
        }
      }
      live = next;
    }
    if (std::find(live.begin(), live.end(), true) == live.end()) continue;
    for (std::int64_t i = 0; i < d.convolution.input[2]; ++i)
      for (std::int64_t k = 0; k < d.convolution.kernel[2]; ++k)
        needed += i * d.convolution.stride[2] - d.convolution.padding[2] + k * d.convolution.dilation[2] == o;
  }
  return needed;
}

TEST(Work, AgreesWithBruteForce) {
  for (const std::string conv :
       {"input=9 kernel=3 stride=2 padding=1", "input=7 kernel=5 stride=3 padding=4 dilation=2",
        "input=11 kernel=1 stride=4 output_padding=3", "input=5 kernel=7"})
    for (const std::string chain :
         {"", "| relu", "| max_pool(2)", "| max_pool(3, stride=4)", "| max_pool(2) | max_pool(3)",
          "| max_pool(1, stride=3) | max_pool(2)", "| max_pool(3, stride=2, padding=1, ceil)",
          "| instance_norm | max_pool(4)", "| max_pool(4) | instance_norm"}) {
      const Descriptor d = validate(parse_problem("conv_transpose1d channels=1->1 " + conv + chain));
      EXPECT_EQ(count_work(d).needed, brute_force(d)) << d.text;
    }
}

}  // namespace
}  // namespace convt::core
