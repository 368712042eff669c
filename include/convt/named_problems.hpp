// SPDX-License-Identifier: Apache-2.0
// The five named problems. Included by convt.hpp.
//
// Each is a struct, a function that runs it, and a function that answers the output's shape, for which the spans may be
// left out. `y` is the convolution. What the C functions take once per axis is one field here:
//
//   convt::conv_transpose3d_max_max_sum<float>({.input = x, .kernel = w, .conv_bias = b, .output = y,
//                                               .in_channels = 2, .out_channels = 3, .input_size = {7, 4, 4},
//                                               .kernel_size = {3}, .stride = {2}, .padding = {1}});
#ifndef CONVT_NAMED_PROBLEMS_HPP
#define CONVT_NAMED_PROBLEMS_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <tuple>

#include "convt/base.hpp"
#include "convt/convt.h"

namespace convt {

namespace detail {

template <std::size_t Dims>
std::array<std::size_t, Dims> axes(const char* argument, const Sizes& sizes) {
  std::array<std::size_t, Dims> result{};
  fill_axes(argument, sizes, Dims, result);
  return result;
}

// In the order of the C functions' parameters.
template <std::size_t Dims>
auto c_sizes(const auto& p) {
  const auto common = std::tuple_cat(std::tuple(p.batch_size, p.in_channels, p.out_channels),
                                     axes<Dims>("input_size", p.input_size), axes<Dims>("kernel_size", p.kernel_size),
                                     axes<Dims>("stride", p.stride), axes<Dims>("padding", p.padding));
  if constexpr (requires { p.dilation; })
    return std::tuple_cat(common, axes<Dims>("output_padding", p.output_padding), axes<Dims>("dilation", p.dilation),
                          std::tuple(p.groups));
  else if constexpr (requires { p.output_padding; })
    return std::tuple_cat(common, axes<Dims>("output_padding", p.output_padding));
  else
    return common;
}

template <std::size_t Dims>
std::array<std::size_t, Dims + 2> output_shape(const auto& p, auto ask) {
  std::array<std::size_t, Dims + 2> shape{};
  check(std::apply([&](auto... sizes) { return ask(sizes..., shape.data()); }, c_sizes<Dims>(p)));
  return shape;
}

// Asking for the output's shape first refuses sizes that break a rule, so that the rest may rely on them.
template <std::size_t Dims>
void run(const auto& p, auto ask, auto function, auto... scalars) {
  const auto output = output_shape<Dims>(p, ask);
  const auto shape = [](std::size_t rows, std::size_t columns, const std::array<std::size_t, Dims>& axes) {
    Sizes sizes{rows, columns};
    sizes.insert(sizes.end(), axes.begin(), axes.end());
    return sizes;
  };
  std::size_t kernel_channels = p.out_channels;
  if constexpr (requires { p.groups; }) kernel_channels /= std::max<std::size_t>(p.groups, 1);
  const auto input_axes = axes<Dims>("input_size", p.input_size);
  const auto kernel_axes = axes<Dims>("kernel_size", p.kernel_size);
  check_count("input", p.input.size(), shape(p.batch_size, p.in_channels, input_axes));
  check_count("kernel", p.kernel.size(), shape(p.in_channels, kernel_channels, kernel_axes));
  check_count("output", p.output.size(), output);
  const auto call = [&](auto... sizes) {
    if constexpr (requires { p.conv_bias; }) {
      check_count("conv_bias", p.conv_bias.size(), std::array{p.out_channels});
      return function(p.input.data(), p.kernel.data(), p.conv_bias.data(), p.output.data(), sizes...);
    } else {
      return function(p.input.data(), p.kernel.data(), p.output.data(), sizes..., scalars...);
    }
  };
  check(std::apply(call, c_sizes<Dims>(p)));
}

}  // namespace detail

// y
template <Element T>
struct ConvTranspose2dSquareInputAsymKernel {
  std::span<const T> input = {}, kernel = {};
  std::span<T> output = {};
  std::size_t batch_size = 1, in_channels = 0, out_channels = 0;
  Sizes input_size = {}, kernel_size = {}, stride = {1}, padding = {0}, output_padding = {0}, dilation = {1};
  std::size_t groups = 1;
};

template <Element T = float>
std::array<std::size_t, 4> conv_transpose_2d_square_input_asym_kernel_output_shape(
    const ConvTranspose2dSquareInputAsymKernel<T>& problem) {
  return detail::output_shape<2>(problem, convt_conv_transpose_2d_square_input_asym_kernel_output_shape);
}

template <Element T>
void conv_transpose_2d_square_input_asym_kernel(const ConvTranspose2dSquareInputAsymKernel<T>& problem) {
  detail::run<2>(problem, convt_conv_transpose_2d_square_input_asym_kernel_output_shape,
                 detail::select<T>(convt_conv_transpose_2d_square_input_asym_kernel_f32,
                                   convt_conv_transpose_2d_square_input_asym_kernel_f64,
                                   convt_conv_transpose_2d_square_input_asym_kernel_f16,
                                   convt_conv_transpose_2d_square_input_asym_kernel_bf16));
}

// y
template <Element T>
struct ConvTranspose3dAsymInputSqKernel {
  std::span<const T> input = {}, kernel = {};
  std::span<T> output = {};
  std::size_t batch_size = 1, in_channels = 0, out_channels = 0;
  Sizes input_size = {}, kernel_size = {}, stride = {1}, padding = {0}, output_padding = {0}, dilation = {1};
  std::size_t groups = 1;
};

template <Element T = float>
std::array<std::size_t, 5> conv_transpose_3d_asym_input_sq_kernel_output_shape(
    const ConvTranspose3dAsymInputSqKernel<T>& problem) {
  return detail::output_shape<3>(problem, convt_conv_transpose_3d_asym_input_sq_kernel_output_shape);
}

template <Element T>
void conv_transpose_3d_asym_input_sq_kernel(const ConvTranspose3dAsymInputSqKernel<T>& problem) {
  detail::run<3>(problem, convt_conv_transpose_3d_asym_input_sq_kernel_output_shape,
                 detail::select<T>(convt_conv_transpose_3d_asym_input_sq_kernel_f32,
                                   convt_conv_transpose_3d_asym_input_sq_kernel_f64,
                                   convt_conv_transpose_3d_asym_input_sq_kernel_f16,
                                   convt_conv_transpose_3d_asym_input_sq_kernel_bf16));
}

// max_pool3d(max_pool3d(y + conv_bias, 2), 3).sum(1, keepdim=True)
template <Element T>
struct ConvTranspose3dMaxMaxSum {
  std::span<const T> input = {}, kernel = {}, conv_bias = {};
  std::span<T> output = {};
  std::size_t batch_size = 1, in_channels = 0, out_channels = 0;
  Sizes input_size = {}, kernel_size = {}, stride = {1}, padding = {0};
};

template <Element T = float>
std::array<std::size_t, 5> conv_transpose3d_max_max_sum_output_shape(const ConvTranspose3dMaxMaxSum<T>& problem) {
  return detail::output_shape<3>(problem, convt_conv_transpose3d_max_max_sum_output_shape);
}

template <Element T>
void conv_transpose3d_max_max_sum(const ConvTranspose3dMaxMaxSum<T>& problem) {
  detail::run<3>(problem, convt_conv_transpose3d_max_max_sum_output_shape,
                 detail::select<T>(convt_conv_transpose3d_max_max_sum_f32, convt_conv_transpose3d_max_max_sum_f64,
                                   convt_conv_transpose3d_max_max_sum_f16, convt_conv_transpose3d_max_max_sum_bf16));
}

// gelu(LN(y)) * scaling_factor; LN over channels, eps 1e-5, no affine
template <Element T>
struct ConvTranspose3dLayernormGeluScaling {
  std::span<const T> input = {}, kernel = {};
  std::span<T> output = {};
  std::size_t batch_size = 1, in_channels = 0, out_channels = 0;
  Sizes input_size = {}, kernel_size = {}, stride = {1}, padding = {0}, output_padding = {0};
  double scaling_factor = 1;
};

template <Element T = float>
std::array<std::size_t, 5> conv_transpose3d_layernorm_gelu_scaling_output_shape(
    const ConvTranspose3dLayernormGeluScaling<T>& problem) {
  return detail::output_shape<3>(problem, convt_conv_transpose3d_layernorm_gelu_scaling_output_shape);
}

template <Element T>
void conv_transpose3d_layernorm_gelu_scaling(const ConvTranspose3dLayernormGeluScaling<T>& problem) {
  detail::run<3>(problem, convt_conv_transpose3d_layernorm_gelu_scaling_output_shape,
                 detail::select<T>(convt_conv_transpose3d_layernorm_gelu_scaling_f32,
                                   convt_conv_transpose3d_layernorm_gelu_scaling_f64,
                                   convt_conv_transpose3d_layernorm_gelu_scaling_f16,
                                   convt_conv_transpose3d_layernorm_gelu_scaling_bf16),
                 problem.scaling_factor);
}

// gelu(avg_pool3d(LN(y + sum_weight), 2))
template <Element T>
struct ConvTranspose3dSumLayernormAvgpoolGelu {
  std::span<const T> input = {}, kernel = {};
  std::span<T> output = {};
  std::size_t batch_size = 1, in_channels = 0, out_channels = 0;
  Sizes input_size = {}, kernel_size = {}, stride = {1}, padding = {0}, output_padding = {0};
  double sum_weight = 0;
};

template <Element T = float>
std::array<std::size_t, 5> conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape(
    const ConvTranspose3dSumLayernormAvgpoolGelu<T>& problem) {
  return detail::output_shape<3>(problem, convt_conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape);
}

template <Element T>
void conv_transpose3d_sum_layernorm_avgpool_gelu(const ConvTranspose3dSumLayernormAvgpoolGelu<T>& problem) {
  detail::run<3>(problem, convt_conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape,
                 detail::select<T>(convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f32,
                                   convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f64,
                                   convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f16,
                                   convt_conv_transpose3d_sum_layernorm_avgpool_gelu_bf16),
                 problem.sum_weight);
}

}  // namespace convt

#endif  // CONVT_NAMED_PROBLEMS_HPP
