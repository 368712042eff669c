// SPDX-License-Identifier: Apache-2.0
#include "plan/phases.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/division.hpp"
#include "base/error.hpp"

namespace convt::core {

Interval AxisPhases::positions(std::int64_t phase, const Interval& outputs) const {
  return {ceil_div(outputs.begin + padding - phase, stride), floor_div(outputs.end - 1 + padding - phase, stride) + 1};
}

Interval AxisPhases::positions(const AxisClass& axis_class, const Interval& outputs) const {
  if (static_cast<std::int64_t>(axis_class.phases.size()) == stride) return positions(outputs);
  Interval all = positions(axis_class.phases.front(), outputs);
  for (const std::int64_t phase : axis_class.phases) {
    const Interval one = positions(phase, outputs);
    all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
  }
  return all;
}

Interval AxisPhases::positions(const Interval& outputs) const {
  return {floor_div(outputs.begin + padding, stride), floor_div(outputs.end - 1 + padding, stride) + 1};
}

Interval AxisPhases::inputs(const Interval& outputs) const {
  Interval all = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (const AxisClass& one : classes) {
    const Interval q = positions(one, outputs);
    if (q.size() <= 0) continue;
    all = {std::min(all.begin, q.begin - one.shifts.back()), std::max(all.end, q.end - one.shifts.front())};
  }
  return all.begin < all.end ? all : Interval{0, 1};
}

AxisPhases phases_of(const Convolution& c, std::size_t axis, bool merged) {
  AxisPhases result;
  result.kernel = c.kernel[axis];
  result.stride = c.stride[axis];
  result.padding = c.padding[axis];
  result.dilation = c.dilation[axis];
  std::map<std::int64_t, std::vector<std::int64_t>> shifts;  // by phase
  for (std::int64_t k = 0; k < result.kernel; ++k) {
    const std::int64_t at = k * result.dilation;
    shifts[at % result.stride].push_back(at / result.stride);
  }
  result.complete = static_cast<std::int64_t>(shifts.size()) == result.stride;
  for (auto& [phase, list] : shifts) {
    const auto same = std::find_if(merged ? result.classes.begin() : result.classes.end(), result.classes.end(),
                                   [&these = list](const AxisClass& one) { return one.shifts == these; });
    if (same != result.classes.end())
      same->phases.push_back(phase);
    else
      result.classes.push_back({{phase}, std::move(list)});
  }
  return result;
}

std::string reaches_too_far(const Convolution& c) {
  constexpr std::int64_t most_places = std::int64_t{1} << 40;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t inputs = capped_product({c.input[a] - 1, c.stride[a]}),
                       taps = capped_product({c.kernel[a] - 1, c.dilation[a]});
    const std::int64_t farthest =
        std::max({capped_sum({inputs, taps, c.padding[a]}), c.output[a], c.stride[a], c.dilation[a]});
    if (farthest >= most_places) return formatted("axis {} reaches over 2^40 places or more", axis_letters[a]);
  }
  return {};
}

std::int64_t Phases::count() const {
  std::int64_t classes = 1;
  for (const AxisPhases& one : axis) classes *= static_cast<std::int64_t>(one.classes.size());
  return classes;
}

ClassAxes Phases::at(std::int64_t number) const {
  ClassAxes axes{};
  for (std::size_t a = 3; a-- > 0;) {
    const auto size = static_cast<std::int64_t>(axis[a].classes.size());
    axes[a] = &axis[a].classes[static_cast<std::size_t>(number % size)];
    number /= size;
  }
  return axes;
}

Phases phases_of(const Convolution& convolution, unsigned merged) {
  Phases phases;
  for (std::size_t a = 0; a < 3; ++a) phases.axis[a] = phases_of(convolution, a, (merged >> a & 1U) != 0);
  return phases;
}

std::int64_t phase_count(const ClassAxes& axes) {
  std::int64_t count = 1;
  for (const AxisClass* one : axes) count *= static_cast<std::int64_t>(one->phases.size());
  return count;
}

std::int64_t tap_count(const ClassAxes& axes) {
  std::int64_t count = 1;
  for (const AxisClass* one : axes) count *= static_cast<std::int64_t>(one->shifts.size());
  return count;
}

}  // namespace convt::core
