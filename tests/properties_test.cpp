// SPDX-License-Identifier: Apache-2.0
// Properties of the engines and the text form, over random problems (RapidCheck prints the seed).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "backends.hpp"
#include "epilogue/text.hpp"
#include "plan/plan.hpp"

namespace convt::core {
namespace {

using Data = std::vector<double>;

int pick(int low, int high) { return *rc::gen::inRange(low, high + 1); }

Data random_data(std::int64_t count) {
  return *rc::gen::container<Data>(static_cast<std::size_t>(count), rc::gen::map(rc::gen::inRange(-64, 65), [](int i) {
                                     return i / 32.0;  // sums of products stay exact in doubles
                                   }));
}

// A small legal convolution in f64.
Problem random_convolution() {
  Problem p;
  p.dims = static_cast<std::size_t>(pick(1, 3));
  p.dtype = CONVT_F64;
  p.batch_size = static_cast<std::size_t>(pick(1, 2));
  p.groups = static_cast<std::size_t>(pick(1, 3));
  p.in_channels = p.groups * static_cast<std::size_t>(pick(1, 3));
  p.out_channels = p.groups * static_cast<std::size_t>(pick(1, 3));
  for (std::size_t a = 3 - p.dims; a < 3; ++a) {
    p.input[a] = static_cast<std::size_t>(pick(1, 5));
    p.kernel[a] = static_cast<std::size_t>(pick(1, 4));
    p.stride[a] = static_cast<std::size_t>(pick(1, 4));
    p.dilation[a] = static_cast<std::size_t>(pick(1, 3));
    const int largest = static_cast<int>(std::max(p.stride[a], p.dilation[a])) - 1;
    p.output_padding[a] = static_cast<std::size_t>(pick(0, largest));
    const std::size_t whole =
        (p.input[a] - 1) * p.stride[a] + p.dilation[a] * (p.kernel[a] - 1) + p.output_padding[a] + 1;
    p.padding[a] = static_cast<std::size_t>(pick(0, std::min(4, static_cast<int>(whole - 1) / 2)));
  }
  return p;
}

// On every engine of the host, which agree to the last bit: the data's sums of products are exact.
Data run(const Problem& problem, const Data& input, const Data& kernel) {
  std::vector<Data> outputs;
  for (const char* engine : {"cpu", "reference"}) {
    PlanOptions options;
    options.engine = engine;
    const Plan plan(validate(problem), options, backends());
    Data& output = outputs.emplace_back(static_cast<std::size_t>(plan.descriptor().output.count()), std::nan(""));
    plan.execute({.input = input.data(), .kernel = kernel.data(), .output = output.data()});
    RC_ASSERT(output == outputs.front());
  }
  return outputs.front();
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The plain strided convolution of an output-shaped tensor with the same kernel, whose adjoint we compute.
Data plain_convolution(const Descriptor& d, const Data& y, const Data& kernel) {
  const Convolution& c = d.convolution;
  const std::int64_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups;
  Data x(at(d.input.count()));
  std::size_t next = 0;
  for (std::int64_t n = 0; n < d.input.batch; ++n)
    for (std::int64_t ic = 0; ic < c.in_channels; ++ic)
      for (std::int64_t z = 0; z < c.input[0]; ++z)
        for (std::int64_t h = 0; h < c.input[1]; ++h)
          for (std::int64_t w = 0; w < c.input[2]; ++w, ++next)
            for (std::int64_t o = 0; o < outs; ++o)
              for (std::int64_t kd = 0; kd < c.kernel[0]; ++kd)
                for (std::int64_t kh = 0; kh < c.kernel[1]; ++kh)
                  for (std::int64_t kw = 0; kw < c.kernel[2]; ++kw) {
                    const std::int64_t od = z * c.stride[0] - c.padding[0] + kd * c.dilation[0];
                    const std::int64_t oh = h * c.stride[1] - c.padding[1] + kh * c.dilation[1];
                    const std::int64_t ow = w * c.stride[2] - c.padding[2] + kw * c.dilation[2];
                    if (od < 0 || oh < 0 || ow < 0 || od >= c.output[0] || oh >= c.output[1] || ow >= c.output[2])
                      continue;
                    const std::int64_t oc = ic / ins * outs + o;
                    const auto from =
                        at((((n * c.out_channels + oc) * c.output[0] + od) * c.output[1] + oh) * c.output[2] + ow);
                    const auto tap = at((((ic * outs + o) * c.kernel[0] + kd) * c.kernel[1] + kh) * c.kernel[2] + kw);
                    x[next] += y[from] * kernel[tap];
                  }
  return x;
}

double dot(const Data& a, const Data& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

RC_GTEST_PROP(Property, AdjointOfPlainConvolution, ()) {
  const Problem p = random_convolution();
  const Descriptor d = validate(p);
  const Data x = random_data(d.input.count()), kernel = random_data(d.kernel_count), y = random_data(d.output.count());
  RC_ASSERT(dot(run(p, x, kernel), y) == dot(x, plain_convolution(d, y, kernel)));
}

RC_GTEST_PROP(Property, LinearInInputAndKernel, ()) {
  const Problem p = random_convolution();
  const Descriptor d = validate(p);
  const Data x1 = random_data(d.input.count()), x2 = random_data(d.input.count());
  const Data w1 = random_data(d.kernel_count), w2 = random_data(d.kernel_count);
  const auto mix = [](const Data& a, const Data& b) {
    Data sum(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) sum[i] = 2 * a[i] - 0.5 * b[i];
    return sum;
  };
  RC_ASSERT(run(p, mix(x1, x2), w1) == mix(run(p, x1, w1), run(p, x2, w1)));
  RC_ASSERT(run(p, x1, mix(w1, w2)) == mix(run(p, x1, w1), run(p, x1, w2)));
}

RC_GTEST_PROP(Property, GroupsAreConcatenation, ()) {
  Problem p = random_convolution();
  p.batch_size = 1;
  const Descriptor d = validate(p);
  const Data x = random_data(d.input.count()), kernel = random_data(d.kernel_count);
  Problem one = p;
  one.groups = 1;
  one.in_channels = p.in_channels / p.groups;
  one.out_channels = p.out_channels / p.groups;
  const auto slice = [&](const Data& all, std::size_t group) {
    const auto length = static_cast<std::ptrdiff_t>(all.size() / p.groups);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(group) * length;
    return Data(begin, begin + length);
  };
  Data joined;
  for (std::size_t g = 0; g < p.groups; ++g) {
    const Data part = run(one, slice(x, g), slice(kernel, g));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  RC_ASSERT(run(p, x, kernel) == joined);
}

// A kernel of one tap that maps each channel to itself spreads the input over the stride's grid.
RC_GTEST_PROP(Property, IdentityKernelSpreadsTheInput, ()) {
  Problem p = random_convolution();
  p.groups = 1;
  p.out_channels = p.in_channels;
  p.kernel = {1, 1, 1};
  p.padding = {0, 0, 0};
  const Descriptor d = validate(p);
  Data kernel(at(d.kernel_count));
  for (std::size_t c = 0; c < p.in_channels; ++c) kernel[c * p.in_channels + c] = 1;
  const Data x = random_data(d.input.count());
  const Data y = run(p, x, kernel);
  std::size_t next = 0;
  const Axes &out = d.output.space, &in = d.input.space, &stride = d.convolution.stride;
  for (std::int64_t plane = 0; plane < d.output.batch * d.output.channels; ++plane)
    for (std::int64_t z = 0; z < out[0]; ++z)
      for (std::int64_t h = 0; h < out[1]; ++h)
        for (std::int64_t w = 0; w < out[2]; ++w, ++next) {
          const bool on_grid = z % stride[0] == 0 && h % stride[1] == 0 && w % stride[2] == 0 &&
                               z / stride[0] < in[0] && h / stride[1] < in[1] && w / stride[2] < in[2];
          const auto from = at(((plane * in[0] + z / stride[0]) * in[1] + h / stride[1]) * in[2] + w / stride[2]);
          RC_ASSERT(y[next] == (on_grid ? x[from] : 0.0));
        }
}

// The formula against the definition: one past the last place any product falls, plus output_padding, less padding.
RC_GTEST_PROP(Property, ShapeFormula, ()) {
  const Problem p = random_convolution();
  const Descriptor d = validate(p);
  for (std::size_t a = 0; a < 3; ++a) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < p.input[a]; ++i)
      for (std::size_t k = 0; k < p.kernel[a]; ++k) last = std::max(last, i * p.stride[a] + k * p.dilation[a]);
    RC_ASSERT(at(d.output.space[a]) == last + 1 + p.output_padding[a] - 2 * p.padding[a]);
  }
}

// Pools: the count of windows, by walking them.
RC_GTEST_PROP(Property, PoolShapes, ()) {
  const int in = pick(1, 12), size = pick(1, 5), stride = pick(1, 5), padding = pick(0, size / 2);
  const bool ceil = *rc::gen::arbitrary<bool>();
  // Floor mode keeps the windows that fit; ceil mode goes on until one reaches the end, while they start in the image.
  const auto kept = [&](int start) {
    return ceil ? start - stride + size < in + padding && start < in : start + size <= in + padding;
  };
  int windows = 0;
  for (int start = -padding; kept(start); start += stride) ++windows;
  const std::string text =
      fmt::format("conv_transpose1d channels=1->1 input={} kernel=1 | max_pool({}, {}, {}, ceil={})", in, size, stride,
                  padding, ceil);
  if (windows == 0) {
    RC_ASSERT_THROWS_AS(validate(parse_problem(text)), Error);
  } else {
    RC_ASSERT(validate(parse_problem(text)).output.space[2] == windows);
  }
}

std::vector<std::string> examples() {
  std::vector<std::string> all;
  for (const OpDescription& op : op_descriptions()) {
    std::istringstream lines{std::string(op.examples)};
    for (std::string line; std::getline(lines, line);) all.push_back(line);
  }
  return all;
}

RC_GTEST_PROP(Property, TextRoundTrips, ()) {
  Problem p = random_convolution();
  p.dtype = static_cast<convt_dtype>(pick(0, 3));
  p.input_layout = static_cast<convt_layout>(pick(0, 1));
  p.output_layout = static_cast<convt_layout>(pick(0, 1));
  p.precision = static_cast<convt_float32_precision>(pick(0, 1));
  static const auto uses = examples();
  for (int i = pick(0, 4); i > 0; --i)
    p.chain.push_back(parse_chain("chain", uses[at(pick(0, static_cast<int>(uses.size()) - 1))]).front());
  ops::Add add;
  add.term.number = *rc::gen::arbitrary<double>();
  p.chain.emplace_back(add);
  const std::string text = print(p);
  const Problem again = parse_problem(text);
  RC_ASSERT(print(again) == text);
  RC_ASSERT(again.dims == p.dims);
  RC_ASSERT(again.dtype == p.dtype);
  RC_ASSERT(again.input_layout == p.input_layout);
  RC_ASSERT(again.output_layout == p.output_layout);
  RC_ASSERT(again.precision == p.precision);
  RC_ASSERT(again.batch_size == p.batch_size);
  RC_ASSERT(again.in_channels == p.in_channels);
  RC_ASSERT(again.out_channels == p.out_channels);
  RC_ASSERT(again.groups == p.groups);
  for (const AxisParameter& parameter : axis_parameters) RC_ASSERT((again.*parameter.member) == (p.*parameter.member));
  RC_ASSERT(std::get<ops::Add>(again.chain.back()).term.number == add.term.number);
}

// Whatever bytes come, the parser ends with a problem or a message, never otherwise.
RC_GTEST_PROP(Property, ParserSurvivesAnything, ()) {
  std::string text = "conv_transpose2d channels=2->2 input=3 kernel=2 | max_pool(2, stride=1) | leaky_relu(slope=0.1)";
  for (int edits = pick(1, 6); edits > 0; --edits) {
    const auto where = at(pick(0, static_cast<int>(text.size())));
    if (*rc::gen::arbitrary<bool>())
      text.insert(where, 1, *rc::gen::arbitrary<char>());
    else
      text.erase(where, at(pick(1, 4)));
  }
  try {
    validate(parse_problem(text));
  } catch (const Error& error) {
    RC_ASSERT(error.status() == CONVT_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace convt::core
