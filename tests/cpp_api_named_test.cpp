// SPDX-License-Identifier: Apache-2.0
// The five named problems of convt.hpp, in every element type, against the definitions.
#include <gtest/gtest.h>

#include <vector>

#include "convt/convt.hpp"
#include "cpp_api_oracle.hpp"

namespace convt_test {
namespace {

template <class T>
class NamedProblem : public testing::Test {};
using Elements = testing::Types<float, double, convt::f16, convt::bf16>;
TYPED_TEST_SUITE(NamedProblem, Elements);

template <std::size_t Rank>
std::size_t count(const std::array<std::size_t, Rank>& shape) {
  std::size_t product = 1;
  for (const std::size_t size : shape) product *= size;
  return product;
}

TYPED_TEST(NamedProblem, ConvTranspose2d) {
  using T = TypeParam;
  const Convolution c{.batch_size = 2,
                      .in_channels = 4,
                      .out_channels = 6,
                      .input = {1, 5, 4},
                      .kernel = {1, 3, 2},
                      .stride = {1, 2, 3},
                      .padding = {0, 1, 0},
                      .output_padding = {0, 1, 2},
                      .dilation = {1, 1, 2},
                      .groups = 2};
  const auto input = random_elements<T>(c.input_count(), 1), kernel = random_elements<T>(c.kernel_count(), 2);
  convt::ConvTranspose2dSquareInputAsymKernel<T> problem{.input = input,
                                                         .kernel = kernel,
                                                         .batch_size = 2,
                                                         .in_channels = 4,
                                                         .out_channels = 6,
                                                         .input_size = {5, 4},
                                                         .kernel_size = {3, 2},
                                                         .stride = {2, 3},
                                                         .padding = {1, 0},
                                                         .output_padding = {1, 2},
                                                         .dilation = {1, 2},
                                                         .groups = 2};
  const Image expected = convolve(c, to_doubles(input), to_doubles(kernel));
  const auto shape = conv_transpose_2d_square_input_asym_kernel_output_shape(problem);
  EXPECT_EQ(shape, (std::array<std::size_t, 4>{2, 6, expected.axes[1], expected.axes[2]}));
  std::vector<T> output(count(shape));
  problem.output = output;
  conv_transpose_2d_square_input_asym_kernel(problem);
  expect_near(output, expected.values);
}

TYPED_TEST(NamedProblem, ConvTranspose3d) {
  using T = TypeParam;
  const Convolution c{.in_channels = 3,
                      .out_channels = 6,
                      .input = {2, 3, 4},
                      .kernel = {3, 2, 3},
                      .stride = {2, 1, 3},
                      .padding = {1, 0, 2},
                      .output_padding = {1, 0, 1},
                      .dilation = {1, 3, 2},
                      .groups = 3};
  const auto input = random_elements<T>(c.input_count(), 3), kernel = random_elements<T>(c.kernel_count(), 4);
  const Image expected = convolve(c, to_doubles(input), to_doubles(kernel));
  std::vector<T> output(expected.count());
  convt::conv_transpose_3d_asym_input_sq_kernel<T>({.input = input,
                                                    .kernel = kernel,
                                                    .output = output,
                                                    .in_channels = 3,
                                                    .out_channels = 6,
                                                    .input_size = {2, 3, 4},
                                                    .kernel_size = {3, 2, 3},
                                                    .stride = {2, 1, 3},
                                                    .padding = {1, 0, 2},
                                                    .output_padding = {1, 0, 1},
                                                    .dilation = {1, 3, 2},
                                                    .groups = 3});
  expect_near(output, expected.values);
}

TYPED_TEST(NamedProblem, MaxMaxSum) {
  using T = TypeParam;
  const Convolution c{.batch_size = 2,
                      .in_channels = 2,
                      .out_channels = 3,
                      .input = {7, 4, 5},
                      .kernel = {3, 3, 3},
                      .stride = {2, 2, 2},
                      .padding = {1, 1, 1}};
  const auto input = random_elements<T>(c.input_count(), 5), kernel = random_elements<T>(c.kernel_count(), 6);
  const auto bias = random_elements<T>(3, 7);
  Image y = convolve(c, to_doubles(input), to_doubles(kernel));
  for_each(y, [&](auto, auto channel, auto, auto, auto, double& v) { v += convt::to_double(bias[channel]); });
  const Image expected = sum_channels(max_pool(max_pool(y, 2), 3));
  std::vector<T> output(expected.count());
  convt::conv_transpose3d_max_max_sum<T>({.input = input,
                                          .kernel = kernel,
                                          .conv_bias = bias,
                                          .output = output,
                                          .batch_size = 2,
                                          .in_channels = 2,
                                          .out_channels = 3,
                                          .input_size = {7, 4, 5},
                                          .kernel_size = {3},
                                          .stride = {2},
                                          .padding = {1}});
  expect_near(output, expected.values);
}

TYPED_TEST(NamedProblem, LayernormGeluScaling) {
  using T = TypeParam;
  const Convolution c{.in_channels = 2,
                      .out_channels = 5,
                      .input = {2, 3, 2},
                      .kernel = {4, 4, 4},
                      .stride = {2, 2, 2},
                      .padding = {1, 1, 1},
                      .output_padding = {0, 1, 0}};
  const auto input = random_elements<T>(c.input_count(), 8), kernel = random_elements<T>(c.kernel_count(), 9);
  Image expected = layer_norm_channels(convolve(c, to_doubles(input), to_doubles(kernel)));
  for (double& value : expected.values) value = gelu(value) * 2.5;
  std::vector<T> output(expected.count());
  convt::conv_transpose3d_layernorm_gelu_scaling<T>({.input = input,
                                                     .kernel = kernel,
                                                     .output = output,
                                                     .in_channels = 2,
                                                     .out_channels = 5,
                                                     .input_size = {2, 3, 2},
                                                     .kernel_size = {4},
                                                     .stride = {2},
                                                     .padding = {1},
                                                     .output_padding = {0, 1, 0},
                                                     .scaling_factor = 2.5});
  expect_near(output, expected.values);
}

TYPED_TEST(NamedProblem, SumLayernormAvgpoolGelu) {
  using T = TypeParam;
  const Convolution c{.in_channels = 2,
                      .out_channels = 4,
                      .input = {3, 2, 4},
                      .kernel = {3, 3, 3},
                      .stride = {2, 2, 2},
                      .padding = {1, 1, 1},
                      .output_padding = {1, 1, 1}};
  const auto input = random_elements<T>(c.input_count(), 10), kernel = random_elements<T>(c.kernel_count(), 11);
  Image y = convolve(c, to_doubles(input), to_doubles(kernel));
  for (double& value : y.values) value += 0.75;
  Image expected = avg_pool(layer_norm_channels(y), 2);
  for (double& value : expected.values) value = gelu(value);
  std::vector<T> output(expected.count());
  convt::conv_transpose3d_sum_layernorm_avgpool_gelu<T>({.input = input,
                                                         .kernel = kernel,
                                                         .output = output,
                                                         .in_channels = 2,
                                                         .out_channels = 4,
                                                         .input_size = {3, 2, 4},
                                                         .kernel_size = {3},
                                                         .stride = {2},
                                                         .padding = {1},
                                                         .output_padding = {1},
                                                         .sum_weight = 0.75});
  expect_near(output, expected.values);
}

// Shapes of the benchmarks, asked without any tensor.
TEST(NamedProblemShapes, OfTheBenchmarks) {
  using Shape4 = std::array<std::size_t, 4>;
  using Shape5 = std::array<std::size_t, 5>;
  EXPECT_EQ(
      convt::conv_transpose_2d_square_input_asym_kernel_output_shape(
          {.batch_size = 8, .in_channels = 64, .out_channels = 64, .input_size = {512, 512}, .kernel_size = {3, 7}}),
      (Shape4{8, 64, 514, 518}));
  EXPECT_EQ(convt::conv_transpose_3d_asym_input_sq_kernel_output_shape(
                {.batch_size = 8, .in_channels = 48, .out_channels = 24, .input_size = {96}, .kernel_size = {3}}),
            (Shape5{8, 24, 98, 98, 98}));
  EXPECT_EQ(convt::conv_transpose3d_max_max_sum_output_shape({.batch_size = 16,
                                                              .in_channels = 32,
                                                              .out_channels = 64,
                                                              .input_size = {32},
                                                              .kernel_size = {5},
                                                              .stride = {2},
                                                              .padding = {2}}),
            (Shape5{16, 1, 10, 10, 10}));
  EXPECT_EQ(convt::conv_transpose3d_layernorm_gelu_scaling_output_shape({.batch_size = 32,
                                                                         .in_channels = 32,
                                                                         .out_channels = 64,
                                                                         .input_size = {16, 32, 32},
                                                                         .kernel_size = {4},
                                                                         .stride = {2},
                                                                         .padding = {1}}),
            (Shape5{32, 64, 32, 64, 64}));
  EXPECT_EQ(convt::conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape({.batch_size = 32,
                                                                             .in_channels = 32,
                                                                             .out_channels = 64,
                                                                             .input_size = {16, 32, 32},
                                                                             .kernel_size = {3},
                                                                             .stride = {2},
                                                                             .padding = {1},
                                                                             .output_padding = {1}}),
            (Shape5{32, 64, 16, 32, 32}));
}

TEST(NamedProblemErrors, SpansOfTheWrongSize) {
  const std::vector<float> input(54), kernel(216), bias(4), three(3);
  std::vector<float> output(1, -7.0f), two(2, -7.0f);
  const convt::ConvTranspose3dMaxMaxSum<float> good{.input = input,
                                                    .kernel = kernel,
                                                    .conv_bias = bias,
                                                    .output = output,
                                                    .in_channels = 2,
                                                    .out_channels = 4,
                                                    .input_size = {3},
                                                    .kernel_size = {3},
                                                    .stride = {2}};
  const auto message = [&good](auto change) {
    auto bad = good;
    change(bad);
    return error_of([&bad] { conv_transpose3d_max_max_sum(bad); });
  };
  EXPECT_EQ(message([&](auto& p) { p.input = three; }),
            "invalid_argument: input: must have 54 elements, 1x2x3x3x3 (got 3)");
  EXPECT_EQ(message([&](auto& p) { p.kernel = {}; }),
            "invalid_argument: kernel: must have 216 elements, 2x4x3x3x3 (got 0)");
  EXPECT_EQ(message([&](auto& p) { p.conv_bias = three; }),
            "invalid_argument: conv_bias: must have 4 elements, 4 (got 3)");
  EXPECT_EQ(message([&](auto& p) { p.output = two; }),
            "invalid_argument: output: must have 1 elements, 1x1x1x1x1 (got 2)");
  EXPECT_EQ(message([&](auto& p) {
              p.stride = {2, 2};
            }),
            "invalid_argument: stride: takes one size or 3, one per spatial axis (got 2)");
  EXPECT_EQ(output[0], -7.0f);
  EXPECT_EQ(two[0], -7.0f);
  conv_transpose3d_max_max_sum(good);
  EXPECT_EQ(output[0], 0.0f);
}

TEST(NamedProblemErrors, RulesOfTheLibrary) {
  convt::ConvTranspose2dSquareInputAsymKernel<float> problem{
      .in_channels = 4, .out_channels = 4, .input_size = {3}, .kernel_size = {3}};
  const auto message = [&problem](auto change) {
    auto bad = problem;
    change(bad);
    return error_of([&bad] { conv_transpose_2d_square_input_asym_kernel(bad); });
  };
  expect_contains(message([](auto& p) { p.stride = {1, 0}; }), "invalid_argument: stride");
  expect_contains(message([](auto& p) { p.groups = 0; }), "invalid_argument: groups");
  expect_contains(message([](auto& p) { p.groups = 3; }), "groups");
  expect_contains(message([](auto& p) { p.padding = {3}; }), "padding");
  expect_contains(message([](auto& p) { p.in_channels = 0; }), "in_channels");
  // Products that pass 2^64 must not wrap to the size of an empty span.
  expect_contains(message([](auto& p) { p.input_size = {std::size_t{1} << 32}; }), "invalid_argument");
}

TEST(NamedProblemErrors, EmptyBatchIsLegal) {
  const std::vector<float> kernel(216);
  convt::conv_transpose3d_layernorm_gelu_scaling<float>(
      {.kernel = kernel, .batch_size = 0, .in_channels = 2, .out_channels = 4, .input_size = {3}, .kernel_size = {3}});
}

}  // namespace
}  // namespace convt_test
