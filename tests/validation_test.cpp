// SPDX-License-Identifier: Apache-2.0
// What is refused, with which status and message, and that nothing is written: every parameter of every named problem.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "convt/convt.h"
#include "support/named_functions.hpp"

namespace convt::testing {
namespace {

constexpr std::size_t room = 1 << 16;  // elements; more than any legal problem here touches
constexpr unsigned char poison = 0xA5;

// Buffers large enough for every problem below, whatever its element type.
struct Arena {
  std::vector<double> input = std::vector<double>(room, 0.5), kernel = input, bias = input;
  std::vector<double> output;
  Arena() : output(room) { std::memset(output.data(), poison, room * sizeof(double)); }
  bool untouched() const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(output.data());
    for (std::size_t i = 0; i < room * sizeof(double); ++i)
      if (bytes[i] != poison) return false;
    return true;
  }
};

// Refused in every element type, by the run and by the shape query, with one message that starts with `argument`.
void expect_refused(const NamedFunction& f, const std::vector<std::size_t>& sizes, const std::string& argument) {
  std::string message;
  for (const auto& run : f.run) {
    Arena arena;
    EXPECT_EQ(run(arena.input.data(), arena.kernel.data(), arena.bias.data(), arena.output.data(), sizes, 1.5),
              CONVT_INVALID_ARGUMENT)
        << f.slug << " accepts a bad " << argument;
    message = convt_last_error();
    EXPECT_EQ(message.rfind(argument + ":", 0), 0U) << f.slug << ", " << argument << ": " << message;
    EXPECT_TRUE(arena.untouched()) << f.slug << " wrote in spite of: " << message;
  }
  std::size_t shape[5] = {7, 7, 7, 7, 7};
  EXPECT_EQ(f.output_shape(sizes, shape), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(convt_last_error()).rfind(argument + ":", 0), 0U) << convt_last_error();
  for (const std::size_t size : shape) EXPECT_EQ(size, 7U);
}

std::vector<std::size_t> with(const NamedFunction& f, const std::string& parameter, std::size_t value) {
  auto sizes = f.example();
  sizes[f.index(parameter)] = value;
  return sizes;
}

const std::vector<std::string>& letters(const NamedFunction& f) {
  static const std::vector<std::string> two{"h", "w"}, three{"d", "h", "w"};
  return f.dims == 2 ? two : three;
}

TEST(Validation, ExamplesAreLegal) {
  for (const NamedFunction& f : named_functions())
    for (const auto& run : f.run) {
      Arena arena;
      EXPECT_EQ(run(arena.input.data(), arena.kernel.data(), arena.bias.data(), arena.output.data(), f.example(), 1.5),
                CONVT_OK)
          << f.slug << ": " << convt_last_error();
      EXPECT_FALSE(arena.untouched());
    }
}

TEST(Validation, ZeroSizes) {
  for (const NamedFunction& f : named_functions())
    for (const std::string& parameter : f.parameters) {
      if (parameter == "batch_size" || parameter.find("padding") != std::string::npos) continue;  // may be 0
      expect_refused(f, with(f, parameter, 0), parameter);
    }
}

TEST(Validation, SizesPast63Bits) {
  for (const NamedFunction& f : named_functions())
    for (const std::string& parameter : f.parameters)
      for (const std::size_t huge : {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 63})
        expect_refused(f, with(f, parameter, huge), parameter);
}

// Sizes that are legal alone, and whose product is not.
TEST(Validation, ProductsPast63Bits) {
  for (const NamedFunction& f : named_functions()) {
    expect_refused(f, with(f, "batch_size", std::size_t{1} << 60), "input");
    expect_refused(f, with(f, "in_channels", std::size_t{1} << 60), "input");
    expect_refused(f, with(f, "out_channels", std::size_t{1} << 60), "kernel");
    for (const std::string& letter : letters(f)) {
      const std::string size = letter == "d" ? "depth" : letter == "h" ? "height" : "width";
      expect_refused(f, with(f, size, (std::size_t{1} << 62) + 1), size);          // the output's axis
      expect_refused(f, with(f, "stride_" + letter, std::size_t{1} << 61), size);  // (5 - 1)*stride
      expect_refused(f, with(f, "kernel_" + letter, std::size_t{1} << 60), "kernel");
      if (f.has("dilation_" + letter)) expect_refused(f, with(f, "dilation_" + letter, std::size_t{1} << 62), size);
    }
    // No factor of zero hides it, and no wrap-around lets it pass: 2^32 * 2^32 = 0 modulo 2^64.
    auto sizes = with(f, "batch_size", 0);
    sizes[f.index("height")] = std::size_t{1} << 31;
    sizes[f.index("width")] = std::size_t{1} << 31;
    sizes[f.index("in_channels")] = std::size_t{1} << 31;
    expect_refused(f, sizes, "input");
    sizes = f.example();
    sizes[f.index("batch_size")] = std::size_t{1} << 32;
    sizes[f.index("in_channels")] = std::size_t{1} << 32;
    expect_refused(f, sizes, "input");
  }
}

TEST(Validation, GroupsMustDivide) {
  for (const NamedFunction& f : named_functions()) {
    if (!f.has("groups")) continue;
    expect_refused(f, with(f, "groups", 3), "groups");
    expect_refused(f, with(f, "groups", 4), "groups");  // divides out_channels 4, not in_channels 2
    auto sizes = with(f, "groups", 2);
    sizes[f.index("out_channels")] = 3;  // and the other way round
    expect_refused(f, sizes, "groups");
  }
}

TEST(Validation, OutputPaddingBelowStrideOrDilation) {
  for (const NamedFunction& f : named_functions())
    for (const std::string& letter : letters(f)) {
      const std::string parameter = "output_padding_" + letter;
      if (!f.has(parameter)) continue;
      expect_refused(f, with(f, parameter, 2), parameter);  // stride is 2
      if (!f.has("dilation_" + letter)) continue;
      auto sizes = with(f, parameter, 3);
      sizes[f.index("dilation_" + letter)] = 3;
      expect_refused(f, sizes, parameter);
      sizes[f.index(parameter)] = 2;  // below dilation 3, not below stride 2: legal
      std::size_t shape[5];
      EXPECT_EQ(f.output_shape(sizes, shape), CONVT_OK) << convt_last_error();
    }
}

TEST(Validation, EmptyOutputAxis) {
  for (const NamedFunction& f : named_functions())
    for (const std::string& letter : letters(f)) {
      // 5 -> (5 - 1)*2 + 2 + 1 = 11, so that padding 6 leaves -1 and (with kernel 2) padding 5 leaves 0.
      expect_refused(f, with(f, "padding_" + letter, 6), "padding_" + letter);
      auto sizes = with(f, "padding_" + letter, 5);
      sizes[f.index("kernel_" + letter)] = 2;
      expect_refused(f, sizes, "padding_" + letter);
    }
}

TEST(Validation, EmptyPool) {
  for (const NamedFunction& f : named_functions()) {
    const bool maxes = f.slug == "conv-transpose3d-max-max-sum", averages = f.slug.find("avgpool") != std::string::npos;
    for (const std::string& letter : letters(f)) {
      // 11 - 2*padding: 11 -> 5 -> 1 by the max pools; 5 -> 2 -> empty; 1 -> empty by either.
      if (maxes) expect_refused(f, with(f, "padding_" + letter, 3), "max_pool.size");
      if (maxes) expect_refused(f, with(f, "padding_" + letter, 5), "max_pool.size");
      if (averages) expect_refused(f, with(f, "padding_" + letter, 5), "avg_pool.size");
    }
  }
}

TEST(Validation, NullPointers) {
  for (const NamedFunction& f : named_functions())
    for (const auto& run : f.run) {
      Arena a;
      const auto sizes = f.example();
      const auto refused = [&](convt_status status, const std::string& argument) {
        EXPECT_EQ(status, CONVT_INVALID_ARGUMENT) << f.slug << " accepts null " << argument;
        EXPECT_EQ(std::string(convt_last_error()).rfind(argument, 0), 0U) << convt_last_error();
        EXPECT_TRUE(a.untouched());
      };
      refused(run(nullptr, a.kernel.data(), a.bias.data(), a.output.data(), sizes, 1), "input:");
      refused(run(a.input.data(), nullptr, a.bias.data(), a.output.data(), sizes, 1), "kernel:");
      refused(run(a.input.data(), a.kernel.data(), a.bias.data(), nullptr, sizes, 1), "output:");
      if (f.has_bias) refused(run(a.input.data(), a.kernel.data(), nullptr, a.output.data(), sizes, 1), "conv_bias:");
    }
  std::size_t* none = nullptr;
  for (const NamedFunction& f : named_functions()) EXPECT_EQ(f.output_shape(f.example(), none), CONVT_INVALID_ARGUMENT);
}

TEST(Validation, EmptyBatchIsLegal) {
  for (const NamedFunction& f : named_functions())
    for (const auto& run : f.run) {
      Arena a;
      const auto sizes = with(f, "batch_size", 0);
      EXPECT_EQ(run(nullptr, a.kernel.data(), a.bias.data(), nullptr, sizes, 1), CONVT_OK) << convt_last_error();
      EXPECT_EQ(run(a.input.data(), a.kernel.data(), a.bias.data(), a.output.data(), sizes, 1), CONVT_OK);
      EXPECT_TRUE(a.untouched());
      EXPECT_EQ(run(nullptr, nullptr, a.bias.data(), nullptr, sizes, 1), CONVT_INVALID_ARGUMENT);  // not empty
      std::size_t shape[5];
      EXPECT_EQ(f.output_shape(sizes, shape), CONVT_OK);
      EXPECT_EQ(shape[0], 0U);
    }
}

TEST(Validation, OutputMustNotOverlap) {
  for (const NamedFunction& f : named_functions()) {
    const auto sizes = f.example();
    std::size_t shape[5] = {1, 1, 1, 1, 1};
    ASSERT_EQ(f.output_shape(sizes, shape), CONVT_OK);
    std::size_t outputs = 1;
    for (std::size_t i = 0; i < f.dims + 2; ++i) outputs *= shape[i];
    std::vector<float> memory(room, 0.25F);
    float* output = memory.data() + room / 2;
    const std::vector<float> elsewhere(room, 0.5F);
    const auto before = memory;
    for (const float* inside : {static_cast<const float*>(output), static_cast<const float*>(output + outputs - 1),
                                static_cast<const float*>(output - 1)}) {
      EXPECT_EQ(f.run[0](inside, elsewhere.data(), elsewhere.data(), output, sizes, 1), CONVT_INVALID_ARGUMENT);
      EXPECT_EQ(std::string(convt_last_error()).rfind("output:", 0), 0U) << convt_last_error();
      EXPECT_EQ(f.run[0](elsewhere.data(), inside, elsewhere.data(), output, sizes, 1), CONVT_INVALID_ARGUMENT);
      if (f.has_bias) {
        EXPECT_EQ(f.run[0](elsewhere.data(), elsewhere.data(), inside, output, sizes, 1), CONVT_INVALID_ARGUMENT);
      }
    }
    EXPECT_EQ(memory, before);
    // Side by side is fine.
    EXPECT_EQ(f.run[0](output + outputs, elsewhere.data(), elsewhere.data(), output, sizes, 1), CONVT_OK);
  }
}

TEST(Validation, MisalignedPointers) {
  for (const NamedFunction& f : named_functions()) {
    Arena a;
    auto* off = reinterpret_cast<char*>(a.input.data()) + 1;
    EXPECT_EQ(f.run[0](off, a.kernel.data(), a.bias.data(), a.output.data(), f.example(), 1), CONVT_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(convt_last_error()).rfind("input: must be aligned", 0), 0U) << convt_last_error();
    EXPECT_TRUE(a.untouched());
  }
}

// A legal scalar may be anything; the result is what arithmetic makes of it.
TEST(Validation, ScalarsMayBeAnything) {
  for (const NamedFunction& f : named_functions())
    for (const double scalar : {0.0, -1e308, std::numeric_limits<double>::infinity(), std::nan("")}) {
      Arena a;
      EXPECT_EQ(f.run[1](a.input.data(), a.kernel.data(), a.bias.data(), a.output.data(), f.example(), scalar),
                CONVT_OK)
          << convt_last_error();
    }
}

// Whatever sizes come, alone and together: an answer, the same from run and shape query, and never a touch of memory.
TEST(Validation, RandomHostileSizes) {
  constexpr std::size_t one = 1;
  const std::size_t values[] = {0,
                                1,
                                1,
                                1,
                                2,
                                3,
                                5,
                                7,
                                one << 31,
                                (one << 31) - 1,
                                one << 32,
                                one << 61,
                                one << 62,
                                (one << 62) + 1,
                                (one << 63) - 1,
                                one << 63,
                                SIZE_MAX - 1,
                                SIZE_MAX};
  std::uint64_t state = 20240611;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  int legal = 0;
  for (int round = 0; round < 20000; ++round) {
    const NamedFunction& f = named_functions()[draw(named_functions().size())];
    auto sizes = f.example();
    for (std::size_t changes = 1 + draw(4); changes > 0; --changes)
      sizes[draw(sizes.size())] = values[draw(std::size(values))];
    std::size_t shape[5] = {};
    const convt_status status = f.output_shape(sizes, shape);
    const std::string message = convt_last_error();
    ASSERT_TRUE(status == CONVT_OK || status == CONVT_INVALID_ARGUMENT) << message;
    const convt_status run = f.run[draw(4)](nullptr, nullptr, nullptr, nullptr, sizes, 1.0);
    ASSERT_EQ(run, CONVT_INVALID_ARGUMENT) << f.slug;  // at the latest for its kernel, which is never empty
    if (status == CONVT_OK) {
      ++legal;
      EXPECT_NE(std::string(convt_last_error()).find("must not be null"), std::string::npos) << convt_last_error();
    }
  }
  EXPECT_GT(legal, 1000);
}

TEST(Validation, MessagesCarryRuleAndValues) {
  const NamedFunction& f = named_functions()[1];
  std::size_t shape[5];
  f.output_shape(with(f, "stride_h", 0), shape);
  EXPECT_STREQ(convt_last_error(), "stride_h: must be at least 1 (got 0)");
  f.output_shape(with(f, "groups", 3), shape);
  EXPECT_STREQ(convt_last_error(), "groups: must divide in_channels (got groups 3, in_channels 2)");
  f.output_shape(with(f, "padding_w", 6), shape);
  EXPECT_NE(std::string(convt_last_error()).find("(5 - 1)*2 - 2*6 + 1*(3 - 1) + 0 + 1"), std::string::npos)
      << convt_last_error();
}

// Planning takes milliseconds; steps that need a whole image, or move into the kernel, once took seconds.
TEST(Validation, ChainsHaveALimitAndArePlannedUpToIt) {
  constexpr std::size_t most = 1024;
  for (const std::string op : {"group_norm(1)", "avg_pool(1)", "max_pool(1) | bias", "relu"}) {
    const std::size_t each = op.find('|') == std::string::npos ? 1 : 2;
    std::string text = "conv_transpose2d channels=4->4 input=256 kernel=3";
    for (std::size_t i = 0; i < most; i += each) text += " | " + op;
    convt_plan* plan = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(convt_plan_create_from_text(&plan, text.c_str(), nullptr), CONVT_OK) << convt_last_error();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << op;
    convt_plan_destroy(plan);
    EXPECT_EQ(convt_plan_create_from_text(&plan, (text + " | relu").c_str(), nullptr), CONVT_INVALID_ARGUMENT);
    EXPECT_STREQ(convt_last_error(), "chain: must have at most 1024 ops (got 1025)");
  }
}

}  // namespace
}  // namespace convt::testing
