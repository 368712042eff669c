// SPDX-License-Identifier: Apache-2.0
// Parser and printer of whole problems.
#include <algorithm>
#include <set>
#include <span>

#include "base/dtype.hpp"
#include "epilogue/text.hpp"
#include "problem/problem.hpp"

namespace convt::core {
namespace {

constexpr std::string_view layout_names[] = {"channels_first", "channels_last"};  // position = convt_layout
constexpr std::string_view precision_names[] = {"ieee", "tf32"};                  // position = convt_float32_precision
constexpr std::string_view keys[] = {"dtype",  "layout", "precision", "batch",          "channels", "within", "input",
                                     "kernel", "stride", "padding",   "output_padding", "dilation", "groups"};
constexpr std::string_view heads[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};

// One of `names`, as its position.
std::size_t choice(Scanner& s, const std::string_view* names, std::size_t count) {
  const std::size_t at = s.column();
  const std::string expected = formatted("one of {}", joined(std::span(names, count), ", "));
  const std::string_view word = s.word(expected);
  const auto* found = std::find(names, names + count, word);
  if (found == names + count) s.fail(at, "expected {} (got '{}')", expected, word);
  return static_cast<std::size_t>(found - names);
}

convt_layout read_layout(Scanner& s) {
  return static_cast<convt_layout>(choice(s, layout_names, std::size(layout_names)));
}

std::size_t read_size(Scanner& s) { return static_cast<std::size_t>(s.count()); }

void read_axes(Scanner& s, Problem& problem, const AxisParameter& parameter) {
  const std::size_t at = s.column();
  const Extents extents = s.extents();
  if (const std::size_t comma = s.column(); s.accept(','))
    s.fail(comma, "expected 'x' between the sizes of {}, as in 8x8 (got ',')", parameter.name);
  const int dims = static_cast<int>(problem.dims);
  if (extents.rank != 1 && extents.rank != dims)
    s.fail(at, "{} takes one size{} (got {})", parameter.name, dims == 1 ? "" : formatted(" or {}", dims),
           extents.rank);
  const Axes axes = resolve(extents, dims, static_cast<std::int64_t>(parameter.fallback));
  std::copy(axes.begin(), axes.end(), (problem.*parameter.member).begin());
}

void read_value(Scanner& s, Problem& problem, std::string_view key) {
  if (key == "dtype") {
    std::array<std::string_view, dtype_table.size()> names;
    std::transform(dtype_table.begin(), dtype_table.end(), names.begin(), [](const DtypeRow& row) { return row.name; });
    problem.dtype = static_cast<convt_dtype>(choice(s, names.data(), names.size()));
  } else if (key == "layout") {
    problem.input_layout = problem.output_layout = read_layout(s);
    if (s.accept("->")) problem.output_layout = read_layout(s);
  } else if (key == "precision") {
    problem.precision = static_cast<convt_float32_precision>(choice(s, precision_names, std::size(precision_names)));
  } else if (key == "batch") {
    problem.batch_size = read_size(s);
  } else if (key == "channels") {
    problem.in_channels = read_size(s);
    if (!s.accept("->")) s.fail(s.column(), "expected '->' and the output's channels");
    problem.out_channels = read_size(s);
  } else if (key == "within") {
    problem.input_within = read_size(s);
    if (!s.accept("->")) s.fail(s.column(), "expected '->' and the channels of the tensor that the output is in");
    problem.output_within = read_size(s);
  } else if (key == "groups") {
    problem.groups = read_size(s);
  } else {
    const auto* parameter = std::find_if(axis_parameters.begin(), axis_parameters.end(),
                                         [&](const AxisParameter& row) { return row.name == key; });
    read_axes(s, problem, *parameter);
  }
}

// Ops in front of the convolution, each with a `|` behind it.
Chain read_prologue(Scanner& s) {
  Chain prologue;
  for (;;) {
    Scanner ahead = s;
    const std::string_view word = ahead.word();
    if (std::find(std::begin(op_names), std::end(op_names), word) == std::end(op_names)) return prologue;
    prologue.push_back(parse_op(s));
    if (!s.accept('|')) s.fail(s.column(), "expected '|' behind an op that stands before the convolution");
  }
}

}  // namespace

Problem parse_problem(std::string_view text) {
  Scanner s("text", text);
  Problem problem;
  problem.prologue = read_prologue(s);
  const std::size_t at = s.column();
  const std::string_view head = s.word();
  const auto* found = std::find(std::begin(heads), std::end(heads), head);
  if (found == std::end(heads))
    s.fail(at, "expected conv_transpose1d, conv_transpose2d or conv_transpose3d (got '{}'){}", head,
           suggest(head, op_names, std::size(op_names)));
  problem.dims = static_cast<std::size_t>(found - heads) + 1;

  std::set<std::string_view> given;
  while (s.next_is_word()) {
    const std::size_t key_at = s.column();
    const std::string_view key = s.word();
    if (std::find(std::begin(keys), std::end(keys), key) == std::end(keys))
      s.fail(key_at, "unknown field '{}'{}", key, suggest(key, keys, std::size(keys)));
    if (!given.insert(key).second) s.fail(key_at, "{} is given twice", key);
    s.expect('=');
    read_value(s, problem, key);
  }
  const std::size_t behind = s.column();
  const bool has_chain = s.accept('|');
  if (!has_chain && !s.at_end()) s.fail(behind, "expected a field, or '|' before an op (got {})", s.next_token());
  for (const std::string_view key : {"channels", "input", "kernel"})
    if (!given.contains(key)) s.fail(behind, "{}= is missing", key);
  if (has_chain) problem.chain = parse_chain(s);
  return problem;
}

std::string print(const Problem& problem) {
  std::string text = problem.prologue.empty() ? "" : print(problem.prologue) + " | ";
  text += formatted("conv_transpose{}d dtype={}", problem.dims, name_of(problem.dtype));
  const auto layout = [](convt_layout l) { return layout_names[static_cast<std::size_t>(l)]; };
  if (problem.input_layout != problem.output_layout)
    text += formatted(" layout={}->{}", layout(problem.input_layout), layout(problem.output_layout));
  else if (problem.input_layout != CONVT_CHANNELS_FIRST)
    text += formatted(" layout={}", layout(problem.input_layout));
  if (problem.precision != CONVT_FLOAT32_IEEE)
    text += formatted(" precision={}", precision_names[static_cast<std::size_t>(problem.precision)]);
  text += formatted(" batch={} channels={}->{}", problem.batch_size, problem.in_channels, problem.out_channels);
  if (problem.input_within != 0 || problem.output_within != 0)
    text += formatted(" within={}->{}", problem.input_within, problem.output_within);
  for (const AxisParameter& parameter : axis_parameters) {
    const RawAxes& axes = problem.*parameter.member;
    const auto begin = axes.end() - static_cast<std::ptrdiff_t>(problem.dims);
    const bool uniform = std::all_of(begin, axes.end(), [&](std::size_t size) { return size == *begin; });
    if (uniform && !parameter.required && *begin == parameter.fallback) continue;
    text += formatted(" {}={}", parameter.name, joined(std::span(begin, uniform ? begin + 1 : axes.end()), "x"));
  }
  if (problem.groups != 1) text += formatted(" groups={}", problem.groups);
  if (!problem.chain.empty()) text += " | " + print(problem.chain);
  return text;
}

}  // namespace convt::core
