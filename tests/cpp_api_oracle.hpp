// SPDX-License-Identifier: Apache-2.0
// What the tests of the C++ API compare with: the definitions, written once more as plain loops over double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "convt/convt.hpp"

namespace convt_test {

using Axes = std::array<std::size_t, 3>;

// Batch, channels and three axes; fewer dimensions have leading axes of 1.
struct Image {
  std::size_t batch = 1, channels = 1;
  Axes axes{1, 1, 1};
  std::vector<double> values = {};

  std::size_t count() const { return batch * channels * axes[0] * axes[1] * axes[2]; }
  std::size_t index(std::size_t n, std::size_t c, std::size_t z, std::size_t y, std::size_t x) const {
    return (((n * channels + c) * axes[0] + z) * axes[1] + y) * axes[2] + x;
  }
};

struct Convolution {
  std::size_t batch_size = 1, in_channels = 1, out_channels = 1;
  Axes input{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, output_padding{0, 0, 0}, dilation{1, 1, 1};
  std::size_t groups = 1;

  std::size_t input_count() const { return batch_size * in_channels * input[0] * input[1] * input[2]; }
  std::size_t kernel_count() const { return in_channels * out_channels / groups * kernel[0] * kernel[1] * kernel[2]; }
};

inline Image convolve(const Convolution& c, const std::vector<double>& input, const std::vector<double>& kernel) {
  Image out{c.batch_size, c.out_channels};
  for (std::size_t a = 0; a < 3; ++a)
    out.axes[a] =
        (c.input[a] - 1) * c.stride[a] + c.dilation[a] * (c.kernel[a] - 1) + c.output_padding[a] + 1 - 2 * c.padding[a];
  out.values.assign(out.count(), 0.0);
  const Image in{c.batch_size, c.in_channels, c.input};
  const std::size_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups;
  const Image taps{c.in_channels, outs, c.kernel};
  // Element `i` of an axis meets tap `k` at i*stride + k*dilation - padding; wraps to a huge number left of 0.
  const auto meet = [&c](std::size_t a, std::size_t i, std::size_t k) {
    return i * c.stride[a] + k * c.dilation[a] - c.padding[a];
  };
  for (std::size_t n = 0; n < c.batch_size; ++n)
    for (std::size_t ci = 0; ci < c.in_channels; ++ci)
      for (std::size_t j = 0; j < outs; ++j)
        for (std::size_t i = 0; i < c.input[0] * c.input[1] * c.input[2]; ++i)
          for (std::size_t t = 0; t < c.kernel[0] * c.kernel[1] * c.kernel[2]; ++t) {
            const Axes at{i / c.input[2] / c.input[1], i / c.input[2] % c.input[1], i % c.input[2]};
            const Axes tap{t / c.kernel[2] / c.kernel[1], t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
            const Axes o{meet(0, at[0], tap[0]), meet(1, at[1], tap[1]), meet(2, at[2], tap[2])};
            if (o[0] >= out.axes[0] || o[1] >= out.axes[1] || o[2] >= out.axes[2]) continue;
            out.values[out.index(n, ci / ins * outs + j, o[0], o[1], o[2])] +=
                input[in.index(n, ci, at[0], at[1], at[2])] * kernel[taps.index(ci, j, tap[0], tap[1], tap[2])];
          }
  return out;
}

// Combines cubes of size^3; `combine(accumulator, value)` starts from `start`.
inline Image pool(const Image& in, std::size_t size, double start, auto combine) {
  Image out{in.batch, in.channels, {in.axes[0] / size, in.axes[1] / size, in.axes[2] / size}};
  out.values.assign(out.count(), start);
  for (std::size_t n = 0; n < in.batch; ++n)
    for (std::size_t c = 0; c < in.channels; ++c)
      for (std::size_t z = 0; z < out.axes[0] * size; ++z)
        for (std::size_t y = 0; y < out.axes[1] * size; ++y)
          for (std::size_t x = 0; x < out.axes[2] * size; ++x) {
            double& value = out.values[out.index(n, c, z / size, y / size, x / size)];
            value = combine(value, in.values[in.index(n, c, z, y, x)]);
          }
  return out;
}

inline Image max_pool(const Image& in, std::size_t size) {
  return pool(in, size, -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); });
}

inline Image avg_pool(const Image& in, std::size_t size) {
  Image out = pool(in, size, 0.0, [](double a, double b) { return a + b; });
  for (double& value : out.values) value /= static_cast<double>(size * size * size);
  return out;
}

// Calls change(n, c, z, y, x, value) for every element.
inline void for_each(Image& image, auto change) {
  for (std::size_t n = 0; n < image.batch; ++n)
    for (std::size_t c = 0; c < image.channels; ++c)
      for (std::size_t z = 0; z < image.axes[0]; ++z)
        for (std::size_t y = 0; y < image.axes[1]; ++y)
          for (std::size_t x = 0; x < image.axes[2]; ++x)
            change(n, c, z, y, x, image.values[image.index(n, c, z, y, x)]);
}

inline Image sum_channels(Image in) {
  Image out{in.batch, 1, in.axes};
  out.values.assign(out.count(), 0.0);
  for_each(in,
           [&](auto n, auto, auto z, auto y, auto x, double value) { out.values[out.index(n, 0, z, y, x)] += value; });
  return out;
}

inline Image layer_norm_channels(Image in) {
  const auto channels = static_cast<double>(in.channels);
  Image mean = sum_channels(in);
  for (double& value : mean.values) value /= channels;
  for_each(in, [&](auto n, auto, auto z, auto y, auto x, double& value) {
    value -= mean.values[mean.index(n, 0, z, y, x)];
  });
  Image squares = in;
  for (double& value : squares.values) value *= value;
  const Image sum = sum_channels(squares);
  for_each(in, [&](auto n, auto, auto z, auto y, auto x, double& value) {
    value /= std::sqrt(sum.values[sum.index(n, 0, z, y, x)] / channels + 1e-5);
  });
  return in;
}

inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }

// ---- elements

// Uniform in [-1, 1), already rounded to T.
template <convt::Element T>
std::vector<T> random_elements(std::size_t count, std::uint32_t seed) {
  std::vector<T> values(count);
  for (T& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = convt::from_double<T>(static_cast<double>(seed >> 8) / 8388608.0 - 1.0);
  }
  return values;
}

template <convt::Element T>
std::vector<double> to_doubles(const std::vector<T>& values) {
  std::vector<double> doubles;
  for (const T value : values) doubles.push_back(convt::to_double(value));
  return doubles;
}

template <convt::Element T>
std::vector<T> from_doubles(const std::vector<double>& values) {
  std::vector<T> elements;
  for (const double value : values) elements.push_back(convt::from_double<T>(value));
  return elements;
}

// Room for accumulation in the type that T accumulates in, and for one rounding to T, relative to the largest element.
template <convt::Element T>
inline constexpr double tolerance = std::same_as<T, double>       ? 1e-12
                                    : std::same_as<T, float>      ? 1e-5
                                    : std::same_as<T, convt::f16> ? 1.0 / 1024
                                                                  : 1.0 / 128;

template <convt::Element T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(convt::to_double(actual[i]), expected[i], tolerance<T> * std::max(largest, 1e-3)) << "element " << i;
}

// Runs what must throw a convt::Error; returns "status: message", or "" with a failure recorded.
inline std::string error_of(auto function) {
  try {
    function();
  } catch (const convt::Error& error) {
    return to_string(error.status()) + ": " + error.what();
  }
  ADD_FAILURE() << "no convt::Error was thrown";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in \"" << text << "\"";
}

}  // namespace convt_test
