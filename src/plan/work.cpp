// SPDX-License-Identifier: Apache-2.0
#include "plan/work.hpp"

#include <algorithm>
#include <vector>

#include "base/division.hpp"

namespace convt::core {
namespace {

struct Interval {
  std::int64_t begin, end;
};
using Coordinates = std::vector<Interval>;  // disjoint, ascending

// Limits on the counting, which takes taps x pieces steps: beyond them one interval around all pieces stands for them,
// and every product is taken to be needed. The count is then an upper bound.
constexpr std::int64_t most_pieces = 1 << 16;
constexpr std::int64_t most_steps = 1 << 22;

// Inputs that a pool's windows at the needed outputs cover.
Coordinates covered(const Coordinates& needed, std::int64_t in, std::int64_t size, std::int64_t stride,
                    std::int64_t padding) {
  Coordinates result;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = std::max<std::int64_t>(first * stride - padding, 0);
    const std::int64_t from = last * stride - padding;
    const std::int64_t end = size < in - from ? from + size : in;  // from + size can pass 63 bits
    if (!result.empty() && begin <= result.back().end)
      result.back().end = std::max(end, result.back().end);
    else
      result.push_back({begin, end});
  };
  std::int64_t outputs = 0;
  for (const auto [begin, end] : needed) outputs += end - begin;
  if (stride <= size || outputs > most_pieces) {
    for (const auto [begin, end] : needed) add(begin, end - 1);
  } else {
    for (const auto [begin, end] : needed)
      for (std::int64_t out = begin; out < end; ++out) add(out, out);
  }
  return result;
}

using Needed = std::array<Coordinates, 3>;

Needed everything(const Shape& shape) {
  Needed needed;
  std::transform(shape.space.begin(), shape.space.end(), needed.begin(), [](std::int64_t size) {
    return Coordinates{{0, size}};
  });
  return needed;
}

// From the outputs of an op that are needed to its inputs that are.
void spread(const Op& any, const Shape& in, const Shape& out, Needed& needed) {
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Pool>) {
          const auto [size, stride, padding] = windows_of(op, in);
          for (std::size_t axis = 0; axis < 3; ++axis)
            needed[axis] = covered(needed[axis], in.space[axis], size[axis], stride[axis], padding[axis]);
        } else if constexpr (std::derived_from<T, Normalise>) {
          const Region region = op.region();
          const std::size_t first = region.kind == Region::groups || region.kind == Region::instance ? 0
                                    : region.kind == Region::trailing
                                        ? 3 - static_cast<std::size_t>(std::min<std::int64_t>(region.parameter, 3))
                                    : region.kind == Region::axes ? 0
                                                                  : 3;
          for (std::size_t axis = first; axis < 3; ++axis) needed[axis] = {{0, in.space[axis]}};
        } else if constexpr (std::derived_from<T, Combine> || std::derived_from<T, Reduce>) {
          // Where it broadcasts, its one element; where it reduces, all.
          for (std::size_t axis = 0; axis < 3; ++axis)
            if (in.space[axis] != out.space[axis]) needed[axis] = {{0, in.space[axis]}};
        }
      },
      any);
}

// Pairs of an input and a tap that meet in a needed output.
double meetings(const Convolution& c, std::size_t axis, const Coordinates& needed) {
  const auto pieces = static_cast<std::int64_t>(needed.size());
  if (c.kernel[axis] > most_steps / pieces)
    return static_cast<double>(c.input[axis]) * static_cast<double>(c.kernel[axis]);
  double count = 0;
  for (std::int64_t tap = 0; tap < c.kernel[axis]; ++tap)
    for (const auto [begin, end] : needed) {
      // begin <= in*stride - padding + tap*dilation < end
      const std::int64_t shift = c.padding[axis] - tap * c.dilation[axis];
      const std::int64_t first = std::max<std::int64_t>(ceil_div(begin + shift, c.stride[axis]), 0);
      const std::int64_t last = std::min(ceil_div(end + shift, c.stride[axis]), c.input[axis]);
      count += static_cast<double>(std::max<std::int64_t>(last - first, 0));
    }
  return count;
}

double pairs_of_channels(const Convolution& c, std::int64_t batch) {
  const std::int64_t outs = c.out_channels / c.groups;
  return static_cast<double>(batch) * static_cast<double>(c.in_channels) * static_cast<double>(outs);
}

double scattered(const Convolution& c, std::int64_t batch) {
  double products = pairs_of_channels(c, batch);
  for (std::size_t axis = 0; axis < 3; ++axis)
    products *= static_cast<double>(c.input[axis]) * static_cast<double>(c.kernel[axis]);
  return products;
}

// For needed outputs of the convolution.
Work count(const Convolution& c, std::int64_t batch, const Needed& needed) {
  Work work{pairs_of_channels(c, batch), scattered(c, batch)};
  for (std::size_t axis = 0; axis < 3; ++axis) work.needed *= meetings(c, axis, needed[axis]);
  return work;
}

}  // namespace

double scattered_products(const Descriptor& d) { return scattered(d.convolution, d.input.batch); }
double scattered_products(const Program& p) { return scattered(p.convolution, p.conv.batch); }

Work count_work(const Descriptor& d) {
  Needed needed = everything(d.output);
  for (auto stage = d.stages.rbegin(); stage != d.stages.rend(); ++stage)
    spread(stage->op, stage->in, stage->out, needed);
  return count(d.convolution, d.input.batch, needed);
}

Work count_work(const Program& p) {
  Needed needed = everything(p.asked->output);
  for (auto step = p.steps.rbegin(); step != p.steps.rend(); ++step)
    if (const Op* op = std::get_if<Op>(&step->what)) spread(*op, step->in, step->out, needed);
  return count(p.convolution, p.conv.batch, needed);
}

}  // namespace convt::core
