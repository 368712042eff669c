// SPDX-License-Identifier: Apache-2.0
// The named problems, called again and again: what is kept between calls never shows.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "convt/convt.h"
#include "support/named_functions.hpp"

namespace convt::testing {
namespace {

constexpr std::size_t room = 1 << 14;

struct Tensors {
  std::vector<float> input = std::vector<float>(room), kernel = input, bias = input, output = input;

  explicit Tensors(unsigned seed) {
    unsigned state = seed;
    for (auto* tensor : {&input, &kernel, &bias})
      for (float& value : *tensor)
        value = static_cast<float>((state = state * 1664525U + 1013904223U) >> 8) / static_cast<float>(1U << 24);
  }
  convt_status run(const NamedFunction& f, const std::vector<std::size_t>& sizes, double scalar) {
    return f.run[CONVT_F32](input.data(), kernel.data(), bias.data(), output.data(), sizes, scalar);
  }
};

std::vector<float> result(const NamedFunction& f, unsigned seed, const std::vector<std::size_t>& sizes, double scalar) {
  Tensors tensors(seed);
  EXPECT_EQ(tensors.run(f, sizes, scalar), CONVT_OK) << convt_last_error();
  return tensors.output;
}

TEST(RepeatedCalls, SeeTheWeightsOfTheirCall) {
  for (const NamedFunction& f : named_functions()) {
    const auto first = result(f, 1, f.example(), 1.5), second = result(f, 2, f.example(), 1.5);
    EXPECT_NE(first, second) << f.slug;
    EXPECT_EQ(result(f, 1, f.example(), 1.5), first) << f.slug;
    EXPECT_EQ(result(f, 2, f.example(), 1.5), second) << f.slug;
  }
}

TEST(RepeatedCalls, SeeTheirSizesAndScalars) {
  for (const NamedFunction& f : named_functions()) {
    const auto small = result(f, 1, f.example(), 1.5);
    auto sizes = f.example();
    sizes[f.index("batch_size")] += 1;
    EXPECT_NE(result(f, 1, sizes, 1.5), small) << f.slug;
    EXPECT_EQ(result(f, 1, f.example(), 1.5), small) << f.slug;
    if (f.slug == "conv-transpose3d-layernorm-gelu-scaling") {
      EXPECT_NE(result(f, 1, f.example(), 2.5), small);
    }
  }
}

TEST(RepeatedCalls, AreCheckedEveryTime) {
  for (const NamedFunction& f : named_functions()) {
    Tensors tensors(1);
    auto wrong = f.example();
    wrong[f.index("kernel_w")] = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_EQ(tensors.run(f, f.example(), 1.5), CONVT_OK) << f.slug;
      EXPECT_EQ(tensors.run(f, wrong, 1.5), CONVT_INVALID_ARGUMENT) << f.slug;
      EXPECT_EQ(std::string(convt_last_error()).rfind("kernel_w:", 0), 0U) << convt_last_error();
      EXPECT_EQ(f.run[CONVT_F32](nullptr, tensors.kernel.data(), tensors.bias.data(), tensors.output.data(),
                                 f.example(), 1.5),
                CONVT_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(convt_last_error()).rfind("input: must not be null", 0), 0U) << convt_last_error();
      EXPECT_EQ(f.run[CONVT_F32](tensors.output.data(), tensors.kernel.data(), tensors.bias.data(),
                                 tensors.output.data(), f.example(), 1.5),
                CONVT_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(convt_last_error()).rfind("output: must not overlap input", 0), 0U) << convt_last_error();
    }
  }
}

TEST(RepeatedCalls, FollowTheEnvironment) {
  const NamedFunction& f = named_functions()[0];
  const char* before = std::getenv("CONVT_ENGINE");
  const std::string kept = before == nullptr ? "" : before;
  const auto expected = result(f, 1, f.example(), 0);
  Tensors tensors(1);
  setenv("CONVT_ENGINE", "nonsuch", 1);
  EXPECT_EQ(tensors.run(f, f.example(), 0), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(convt_last_error()).rfind("CONVT_ENGINE:", 0), 0U) << convt_last_error();
  if (before == nullptr)
    unsetenv("CONVT_ENGINE");
  else
    setenv("CONVT_ENGINE", kept.c_str(), 1);
  EXPECT_EQ(result(f, 1, f.example(), 0), expected);
}

// More problems than plans are kept, from several threads at once.
TEST(RepeatedCalls, ManyProblemsManyThreads) {
  const NamedFunction& f = named_functions()[0];
  const auto sizes_of = [&](std::size_t i) {
    auto sizes = f.example();
    sizes[f.index("height")] = 1 + i % 10;
    sizes[f.index("width")] = 1 + i / 10;
    return sizes;
  };
  constexpr std::size_t problems = 100;
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < problems; ++i) expected.push_back(result(f, 1, sizes_of(i), 0));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < problems; ++i) {
        const std::size_t problem = (i * 7 + t * 25) % problems;
        EXPECT_EQ(result(f, 1, sizes_of(problem), 0), expected[problem]);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace convt::testing
