// SPDX-License-Identifier: Apache-2.0
#include "plan/sums.hpp"

#include <algorithm>
#include <cmath>

#include "base/division.hpp"
#include "base/error.hpp"
#include "epilogue/text.hpp"
#include "plan/algebra.hpp"
#include "plan/passes.hpp"

namespace convt::core {
namespace {

// Linear, and the same for all pixels: what it does to a pixel commutes with averages over space.
bool is_linear(const Step& step) {
  const Op* op = std::get_if<Op>(&step.what);
  return op == nullptr || linear_reduction(*op, step.in.channels).has_value();
}
bool shifts(const Step& step) {
  const Affine* affine = std::get_if<Affine>(&step.what);
  return affine != nullptr && planned(*affine).b != 0;
}

Step times(double factor, const Shape& shape) {
  ops::Mul mul;
  mul.term = {Term::scalar, factor, {}};
  Affine affine;
  affine.parts.push_back({Affine::Part::op, {Op(mul), shape, shape, 0, 0}});
  return {std::move(affine), shape, shape, 0, 0};
}

}  // namespace

SpaceSum sum_over_space(const Program& asked) {
  const Pass first = passes_of(asked, Between::store, false).front();
  if (first.sink != Pass::Sink::fold || !linear_pool(std::get<Op>(asked.steps[first.end].what), 1))
    return {nullptr, 1, "takes sums and averages over all of space behind linear steps"};
  auto program = std::make_shared<Program>(asked);
  auto& steps = program->steps;
  const auto count = static_cast<double>(volume(asked.conv.space));
  SpaceSum result;
  result.factor = *linear_pool(std::get<Op>(steps[first.end].what), count);
  program->conv.space = {1, 1, 1};
  bool shifted = false;
  for (std::size_t i = 0; i < first.end; ++i) {
    Step& step = steps[i];
    if (!is_linear(step)) return {nullptr, 1, print(step) + " before the sum over space is not linear"};
    shifted |= shifts(step);
    step.in.space = step.out.space = {1, 1, 1};
    if (Affine* affine = std::get_if<Affine>(&step.what))
      for (Affine::Part& part : affine->parts) part.stage.in.space = part.stage.out.space = {1, 1, 1};
  }
  // A shift commutes with an average. A sum has it once for each pixel: it is an average times their number.
  Step& fold = steps[first.end];
  if (shifted && result.factor != 1 / count) {
    const double again = result.factor * count;
    result.factor = 1 / count;
    fold = times(again, fold.out);
  } else {
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(first.end));
  }
  result.program = std::move(program);
  return result;
}

CellAxis cells_of(const Convolution& c, std::size_t a) {
  CellAxis axis;
  axis.ends = {0, c.input[a]};
  for (std::int64_t tap = 0; tap < c.kernel[a]; ++tap) {
    // The tap takes input i to the output if 0 <= i * stride - padding + tap * dilation < output.
    const std::int64_t shift = c.padding[a] - tap * c.dilation[a];
    const std::int64_t begin = std::clamp<std::int64_t>(ceil_div(shift, c.stride[a]), 0, c.input[a]);
    const std::int64_t end = std::clamp<std::int64_t>(ceil_div(c.output[a] + shift, c.stride[a]), begin, c.input[a]);
    axis.taps.push_back({begin, end});
    if (begin < end) axis.ends.insert(axis.ends.end(), {begin, end});
  }
  std::ranges::sort(axis.ends);
  axis.ends.erase(std::unique(axis.ends.begin(), axis.ends.end()), axis.ends.end());
  const auto cell = [&](std::int64_t end) { return std::ranges::lower_bound(axis.ends, end) - axis.ends.begin(); };
  for (Interval& tap : axis.taps) tap = tap.size() > 0 ? Interval{cell(tap.begin), cell(tap.end)} : Interval{};
  return axis;
}

std::string explain_sums(std::int64_t taps, std::int64_t cells) {
  return formatted("the sum over space moves into the kernel: {} taps times sums of {} parts of the input", taps,
                   cells);
}

}  // namespace convt::core
