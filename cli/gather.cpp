// SPDX-License-Identifier: Apache-2.0
#include "gather.hpp"

#include <algorithm>
#include <cmath>

#include "case_text.hpp"

namespace convt::cli {
namespace {

GatherAxis gather_axis(const Problem& problem, std::size_t axis) {
  const auto size = [&](const Sizes& sizes) { return static_cast<std::ptrdiff_t>(on_axis(sizes, axis)); };
  const std::ptrdiff_t input = size(problem.input), kernel = size(problem.kernel), stride = size(problem.stride),
                       padding = size(problem.padding), dilation = size(problem.dilation);
  const std::ptrdiff_t output =
      (input - 1) * stride - 2 * padding + dilation * (kernel - 1) + size(problem.output_padding) + 1;
  GatherAxis result{static_cast<std::size_t>(input), static_cast<std::size_t>(kernel), {}};
  for (std::ptrdiff_t o = 0; o < output; ++o) {
    std::vector<Meeting>& meetings = result.outputs.emplace_back();
    for (std::ptrdiff_t k = 0; k < kernel; ++k) {
      const std::ptrdiff_t from = o + padding - k * dilation;
      if (from >= 0 && from % stride == 0 && from / stride < input)
        meetings.push_back({static_cast<std::size_t>(k), static_cast<std::size_t>(from / stride)});
    }
  }
  return result;
}

struct Sum {
  double value = 0, magnitude = 0;
};

// One output of one channel, from one channel of the input and its taps.
void add_meetings(const std::array<GatherAxis, 3>& axes, const std::array<std::size_t, 3>& output, const double* input,
                  const double* taps, Sum& sum) {
  for (const Meeting d : axes[0].outputs[output[0]])
    for (const Meeting h : axes[1].outputs[output[1]])
      for (const Meeting w : axes[2].outputs[output[2]]) {
        const double x = input[(d.input * axes[1].input + h.input) * axes[2].input + w.input];
        const double product = x * taps[(d.tap * axes[1].kernel + h.tap) * axes[2].kernel + w.tap];
        sum.value += product;
        sum.magnitude += std::abs(product);
      }
}

}  // namespace

std::array<GatherAxis, 3> gather_axes(const Problem& problem) {
  std::array<GatherAxis, 3> axes;
  for (std::size_t i = 0; i < problem.dims; ++i) axes[3 - problem.dims + i] = gather_axis(problem, i);
  return axes;
}

Gathered gather_convolution(const Problem& problem, std::span<const double> input, std::span<const double> kernel) {
  const std::array<GatherAxis, 3> axes = gather_axes(problem);
  const std::size_t pixels = axes[0].input * axes[1].input * axes[2].input;
  const std::size_t taps = axes[0].kernel * axes[1].kernel * axes[2].kernel;
  const std::size_t ins = problem.in_channels / problem.groups, outs = problem.out_channels / problem.groups;

  Gathered result{{problem.batch_size, problem.out_channels}, {}};
  for (std::size_t i = 3 - problem.dims; i < 3; ++i) result.shape.push_back(axes[i].outputs.size());
  for (std::size_t n = 0; n < problem.batch_size; ++n)
    for (std::size_t oc = 0; oc < problem.out_channels; ++oc)
      for (std::size_t od = 0; od < axes[0].outputs.size(); ++od)
        for (std::size_t oh = 0; oh < axes[1].outputs.size(); ++oh)
          for (std::size_t ow = 0; ow < axes[2].outputs.size(); ++ow) {
            Sum sum;
            for (std::size_t ic = oc / outs * ins; ic < (oc / outs + 1) * ins; ++ic)
              add_meetings(axes, {od, oh, ow}, input.data() + (n * problem.in_channels + ic) * pixels,
                           kernel.data() + (ic * outs + oc % outs) * taps, sum);
            result.values.push_back(sum.value);
            if (std::isfinite(sum.magnitude)) result.magnitude = std::max(result.magnitude, sum.magnitude);
          }
  return result;
}

}  // namespace convt::cli
