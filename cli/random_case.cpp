// SPDX-License-Identifier: Apache-2.0
#include "random_case.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "random.hpp"

namespace convt::cli {
namespace {

enum class Temper { plain, sparse, wide, pixel, prime, striding };

struct Axis {
  std::size_t input, kernel, stride, dilation, output_padding, padding;

  // Outputs before padding crops them.
  std::size_t full() const { return (input - 1) * stride + dilation * (kernel - 1) + output_padding + 1; }
};

Axis draw_axis(Random& random, Temper temper) {
  Axis axis{};
  axis.input = random.between(1, 8);
  axis.kernel = random.between(1, 5);
  axis.stride = random.pick<std::size_t>({1, 1, 2, 2, 3, 4});
  axis.dilation = random.pick<std::size_t>({1, 1, 1, 2, 3});
  switch (temper) {
    case Temper::plain:
      break;
    case Temper::sparse:
      axis.kernel = random.between(1, 3);
      axis.stride = random.between(axis.kernel + 1, 4);
      break;
    case Temper::wide:
      axis.input = random.between(1, 2);
      axis.kernel = random.between(3, 5);
      break;
    case Temper::pixel:
      axis.input = 1;
      break;
    case Temper::prime:
      axis.input = random.pick<std::size_t>({2, 3, 5, 7});
      axis.kernel = random.pick<std::size_t>({2, 3, 5});
      axis.stride = random.pick<std::size_t>({1, 2, 3});
      break;
    case Temper::striding:  // along some axes
      axis.input = random.between(1, 3);
      if (random.chance(50)) axis.stride = random.between(5, 12);
      axis.kernel = random.pick<std::size_t>({1, axis.stride, axis.stride + 1});
      break;
  }
  if (random.chance(40)) axis.output_padding = random.below(std::max(axis.stride, axis.dilation));
  return axis;
}

// At least one output is left.
std::size_t draw_padding(Random& random, const Axis& axis) {
  const std::size_t most = (axis.full() - 1) / 2;
  return random.chance(45) ? 0 : random.chance(25) ? most : random.between(0, most);
}

void draw_channels(Random& random, Temper temper, Problem& problem) {
  constexpr std::size_t most = 12;
  const auto up_to = [&](std::size_t limit) {
    return temper == Temper::prime && limit >= 11 ? random.pick<std::size_t>({2, 3, 5, 7, 11})
                                                  : random.between(1, limit);
  };
  if (random.chance(50)) {  // one group
    problem.in_channels = up_to(most);
    problem.out_channels = up_to(most);
  } else if (random.chance(40)) {  // depthwise, perhaps with several outputs for each input
    problem.groups = problem.in_channels = up_to(most);
    problem.out_channels = problem.groups * (random.chance(60) ? 1 : random.between(1, most / problem.groups));
  } else {
    problem.groups = random.between(2, 4);
    problem.in_channels = problem.groups * random.between(1, most / problem.groups);
    problem.out_channels = problem.groups * random.between(1, most / problem.groups);
  }
}

// Products, and elements that the chain passes; an element in a chain costs about as much as 16 products.
std::size_t cost(const Problem& problem, const std::vector<Axis>& axes) {
  std::size_t products = problem.batch_size * problem.in_channels * problem.out_channels / problem.groups;
  std::size_t elements = problem.batch_size * problem.out_channels;
  for (const Axis& axis : axes) {
    products *= axis.input * axis.kernel;
    elements *= axis.full();
  }
  return products + 16 * elements;
}

void shrink(Problem& problem, std::vector<Axis>& axes) {
  constexpr std::size_t most = 2'000'000;  // milliseconds for the reference engine
  if (cost(problem, axes) > most) problem.batch_size = 1;
  while (cost(problem, axes) > most) {
    const auto by_input = [](const Axis& a, const Axis& b) { return a.input < b.input; };
    Axis& largest = *std::max_element(axes.begin(), axes.end(), by_input);
    if (largest.input == 1) break;
    largest.input /= 2;
  }
}

void draw_sizes(Random& random, Problem& problem) {
  const Temper temper = random.pick({Temper::plain, Temper::plain, Temper::plain, Temper::sparse, Temper::wide,
                                     Temper::pixel, Temper::prime, Temper::striding});
  problem.dims = random.between(1, 3);
  problem.batch_size = random.pick<std::size_t>({1, 1, 2, 3});
  draw_channels(random, temper, problem);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < problem.dims; ++i) axes.push_back(draw_axis(random, temper));
  if (random.chance(30)) std::fill(axes.begin(), axes.end(), axes[0]);
  shrink(problem, axes);
  for (Sizes* sizes : {&problem.stride, &problem.padding, &problem.output_padding, &problem.dilation}) sizes->clear();
  for (Axis& axis : axes) {
    axis.padding = draw_padding(random, axis);
    problem.input.push_back(axis.input);
    problem.kernel.push_back(axis.kernel);
    problem.stride.push_back(axis.stride);
    problem.padding.push_back(axis.padding);
    problem.output_padding.push_back(axis.output_padding);
    problem.dilation.push_back(axis.dilation);
  }
}

// The names of the values that a chain keeps.
std::vector<std::string> kept_names(const std::string& chain) {
  constexpr std::string_view word = "keep(";
  std::vector<std::string> names;
  for (std::size_t at = chain.find(word); at != std::string::npos; at = chain.find(word, at + 1)) {
    const std::size_t begin = at + word.size();
    names.push_back(chain.substr(begin, chain.find(')', begin) - begin));
  }
  return names;
}

// At least one of those that a tensor has.
std::string draw_axes(Random& random, std::size_t dims) {
  std::string axes;
  while (axes.empty())
    for (const char axis : "c" + std::string("dhw").substr(3 - dims))
      if (random.chance(50)) axes += axis;
  return "axes=" + axes;
}

// What was kept is used sooner or later: as it is, and broadcast over what reductions and pools between have dropped.
std::string draw_use(Random& random, const std::string& name, std::size_t dims) {
  const std::string axes = draw_axes(random, dims);
  const std::string use = random.pick<std::string>({"add(", "sub(", "mul(", "div("}) + name + ")";
  return random.pick<std::string>({"", "", "", "", "max_pool(2) | global_avg_pool | ",
                                   "avg_pool(3, stride=2) | global_avg_pool | ", "mean(" + axes + ") | sigmoid | ",
                                   "max(" + axes + ") | ", "softmax(" + axes + ") | ", "avg_pool(1) | "}) +
         use;
}

std::string draw_op(Random& random, const std::vector<OpDescription>& vocabulary, std::size_t dims,
                    const std::string& chain) {
  const std::vector<std::string> kept = kept_names(chain);
  if (!kept.empty() && random.chance(40)) return draw_use(random, random.pick(kept), dims);
  // A name is taken once; the draw of one that is taken is refused, and drawn again.
  if (random.chance(10)) return "keep(" + random.pick<std::string>({"a", "b", "gate_2", "x"}) + ")";
  std::vector<std::string> examples;
  const OpDescription& op = random.pick(vocabulary);
  if (std::string_view(op.signature).find("axes") != std::string_view::npos && random.chance(60))
    return std::string(op.name) + "(" + draw_axes(random, dims) + ")";
  std::istringstream lines(op.examples);
  for (std::string line; std::getline(lines, line);) examples.push_back(line);
  // At 0 the last digit, or a sign, decides what becomes of it.
  const std::string_view name = op.name;
  const bool singular = name == "log" || name == "sqrt" || name == "pow";
  // Beyond e^8 the squares in a norm's variance may leave float's range.
  return (singular ? "abs | add(0.5) | " : name == "exp" ? "clamp(max=8) | " : "") + random.pick(examples);
}

// Any engine would give the same answer.
bool is_valid(const Problem& problem) {
  try {
    const Plan plan(problem, {.engine = "reference"});
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::invalid_argument) throw;
    return false;
  }
}

void draw_chain(Random& random, std::size_t longest, Problem& problem) {
  const std::vector<OpDescription> vocabulary = ops();
  const std::size_t length = random.between(0, longest);
  constexpr std::size_t tries = 8;  // for each op: pools and group norms do not fit every shape
  for (std::size_t i = 0; i < length; ++i)
    for (std::size_t attempt = 0; attempt < tries; ++attempt) {
      Problem longer = problem;
      longer.chain += (problem.chain.empty() ? "" : " | ") + draw_op(random, vocabulary, problem.dims, problem.chain);
      if (!is_valid(longer)) continue;
      problem = longer;
      break;
    }
}

void draw_prologue(Random& random, std::size_t longest, Problem& problem) {
  const std::vector<OpDescription> vocabulary = ops();
  const std::size_t length = random.between(0, std::min<std::size_t>(longest, 3));
  constexpr std::size_t tries = 8;  // for each op: norms, pools and reductions cannot stand there
  for (std::size_t i = 0; i < length; ++i)
    for (std::size_t attempt = 0; attempt < tries; ++attempt) {
      Problem longer = problem;
      longer.prologue +=
          (problem.prologue.empty() ? "" : " | ") + draw_op(random, vocabulary, problem.dims, problem.prologue);
      if (!is_valid(longer)) continue;
      problem = longer;
      break;
    }
}

// Ranges of wider tensors' channels.
void draw_slices(Random& random, Problem& problem) {
  const Plan plan(problem, {.engine = "reference"});
  const auto wider = [&](const TensorInfo& info) { return info.shape[1] + random.between(0, 6); };
  problem.input_within = wider(plan.input_info());
  problem.output_within = wider(plan.output_info());
}

}  // namespace

Problem random_case(std::uint64_t seed, const RandomCaseOptions& options) {
  Random random(seed);
  Problem problem;
  draw_sizes(random, problem);
  const DType dtype = random.pick({DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
  problem.dtype = options.dtype.value_or(dtype);
  const auto layout = [&] { return random.pick({Layout::channels_first, Layout::channels_last}); };
  problem.input_layout = problem.output_layout = layout();
  if (random.chance(25)) problem.output_layout = layout();
  draw_chain(random, options.longest_chain, problem);
  if (random.chance(30)) draw_prologue(random, options.longest_chain, problem);
  if (random.chance(25)) draw_slices(random, problem);
  return problem;
}

}  // namespace convt::cli
