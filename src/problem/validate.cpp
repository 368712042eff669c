// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/checked.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "epilogue/text.hpp"
#include "problem/descriptor.hpp"

namespace convt::core {
namespace {

__extension__ using Wide = __int128;  // sums of products of two 63-bit sizes

constexpr auto largest_size = static_cast<std::size_t>(most_size);
constexpr std::size_t most_ops = 1024;  // of a chain: far beyond any model's, and planned within a second
constexpr std::string_view input_names[] = {"depth", "height", "width"};

std::int64_t size(std::string_view argument, std::size_t value, std::size_t least) {
  if (value < least) reject(argument, "must be at least {} (got {})", least, value);
  if (value > largest_size) reject(argument, "must be below 2^63 (got {})", value);
  return static_cast<std::int64_t>(value);
}

std::string axis_name(const AxisParameter& parameter, std::size_t axis) {
  return parameter.name == "input" ? std::string(input_names[axis])
                                   : formatted("{}_{}", parameter.name, axis_letters[axis]);
}

Axes axes(const Problem& problem, std::string_view name, std::size_t least) {
  const auto* parameter = std::find_if(axis_parameters.begin(), axis_parameters.end(),
                                       [&](const AxisParameter& row) { return row.name == name; });
  Axes result{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    result[axis] = size(axis_name(*parameter, axis), (problem.*parameter->member)[axis], least);
  return result;
}

void check_enums(const Problem& problem) {
  const auto check = [](std::string_view argument, int value, int count) {
    if (value < 0 || value >= count) reject(argument, "is no value of its enum (got {})", value);
  };
  check("dtype", problem.dtype, static_cast<int>(dtype_table.size()));
  check("input_layout", problem.input_layout, 2);
  check("output_layout", problem.output_layout, 2);
  check("precision", problem.precision, 2);
}

// out = (in - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1
Axes output_axes(const Convolution& c) {
  Axes out{};
  for (std::size_t a = 0; a < 3; ++a) {
    const char letter = axis_letters[a];
    if (c.output_padding[a] >= std::max(c.stride[a], c.dilation[a]))
      reject(formatted("output_padding_{}", letter),
             "must be smaller than the larger of stride and dilation (got {}, with stride_{} {} and dilation_{} {})",
             c.output_padding[a], letter, c.stride[a], letter, c.dilation[a]);
    // Without its cropping by padding: every coordinate an engine computes lies inside.
    const Wide whole =
        Wide(c.input[a] - 1) * c.stride[a] + Wide(c.dilation[a]) * (c.kernel[a] - 1) + c.output_padding[a] + 1;
    const Wide size = whole - 2 * Wide(c.padding[a]);
    const auto formula = [&] {
      return formatted("({} - 1)*{} - 2*{} + {}*({} - 1) + {} + 1", c.input[a], c.stride[a], c.padding[a],
                       c.dilation[a], c.kernel[a], c.output_padding[a]);
    };
    if (size < 1)
      reject(formatted("padding_{}", letter),
             "leaves an empty output on axis {}: (in - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding "
             "+ 1 must be at least 1 (got {})",
             letter, formula());
    if (whole > Wide(largest_size))
      reject(input_names[a], "gives an output past 2^63 on axis {}, counted before padding crops it ({})", letter,
             formula());
    out[a] = static_cast<std::int64_t>(size);
  }
  return out;
}

// Elements of a tensor, or a refusal when its bytes pass 63 bits.
std::int64_t checked_count(std::string_view argument, const std::vector<std::int64_t>& sizes, convt_dtype dtype) {
  const auto count = checked_product(sizes);
  if (!count || !checked_product(std::array{*count, static_cast<std::int64_t>(size_of(dtype))}))
    reject(argument, "passes 2^63 bytes ({} elements of {} bytes)", joined(sizes, " x "), size_of(dtype));
  return *count;
}

void check_bytes(std::string_view argument, const Shape& s, convt_dtype dtype) {
  checked_count(argument, s.sizes(), dtype);
}

Convolution convolution(const Problem& problem) {
  Convolution c;
  c.in_channels = size("in_channels", problem.in_channels, 1);
  c.out_channels = size("out_channels", problem.out_channels, 1);
  c.input = axes(problem, "input", 1);
  c.kernel = axes(problem, "kernel", 1);
  c.stride = axes(problem, "stride", 1);
  c.padding = axes(problem, "padding", 0);
  c.output_padding = axes(problem, "output_padding", 0);
  c.dilation = axes(problem, "dilation", 1);
  c.groups = size("groups", problem.groups, 1);
  if (c.in_channels % c.groups != 0)
    reject("groups", "must divide in_channels (got groups {}, in_channels {})", c.groups, c.in_channels);
  if (c.out_channels % c.groups != 0)
    reject("groups", "must divide out_channels (got groups {}, out_channels {})", c.groups, c.out_channels);
  c.output = output_axes(c);
  return c;
}

// Operands of an op of the chain, or of the prologue, whose names then say so.
void add_operands(Descriptor& d, Stage& stage, std::size_t number, std::string_view prefix) {
  for (OperandSpec& spec : operands_of(stage.op, stage.in)) {
    Operand operand;
    operand.stage = number;
    operand.dtype = spec.type == OperandType::f32 ? CONVT_F32 : d.dtype;
    spec.name.insert(0, prefix);
    operand.count = checked_count(spec.name, spec.sizes, operand.dtype);
    operand.spec = std::move(spec);
    d.operands.push_back(std::move(operand));
    ++stage.operand_count;
  }
}

// What may stand before the convolution: ops that see one element and numbers of its channel. The input is then read
// tile by tile, and no part of it has to wait for another.
bool may_precede(const Op& any) {
  return std::visit(
      []<class T>(const T& op) {
        if constexpr (std::derived_from<T, Combine>)
          return op.term.kind == Term::scalar || op.term.kind == Term::channel;
        else if constexpr (std::derived_from<T, Normalise>)
          return op.region().kind == Region::given;
        else
          return std::derived_from<T, Pointwise>;
      },
      any);
}

void add_prologue(Descriptor& d, const Op& op) {
  const auto complain = [&](std::string_view what) {
    return formatted("{}, in op {} of the prologue", what, d.prologue.size() + 1);
  };
  if (!may_precede(op))
    reject(name_of(op), "{}",
           complain(formatted("cannot stand before the convolution, where ops see one element and numbers of its "
                              "channel: pointwise ops, number and channel terms, batch_norm (got {})",
                              print(op))));
  Stage stage{op, d.input, d.input, d.operands.size(), 0};
  try {
    infer(op, d.input, {});
  } catch (const Error& error) {
    throw Error(error.status(), complain(error.what()));
  }
  add_operands(d, stage, d.prologue.size(), "prologue.");
  d.prologue.push_back(stage);
}

void add_stage(Descriptor& d, const Op& op, std::vector<KeptShape>& kept) {
  const Shape in = d.output;
  Stage stage{op, in, {}, d.operands.size(), 0};
  try {
    stage.out = infer(op, in, kept);
  } catch (const Error& error) {  // a chain may have several ops of one name
    throw Error(error.status(), formatted("{}, in op {} of the chain", error.what(), d.stages.size() + 1));
  }
  check_bytes(name_of(op), stage.out, d.dtype);
  add_operands(d, stage, d.stages.size(), "");
  if (const Name* name = kept_name(op)) kept.push_back({*name, stage.out});
  d.output = stage.out;
  d.stages.push_back(stage);
}

// Channels of the tensor that a tensor's are a range of; `asked` is 0 where there is no such range.
std::int64_t within(std::string_view argument, std::size_t asked, const Shape& shape, convt_dtype dtype) {
  const std::int64_t channels = asked == 0 ? shape.channels : size(argument, asked, 1);
  if (channels < shape.channels)
    reject(argument, "must be at least the {} channels of the range (got {})", shape.channels, channels);
  Shape wide = shape;
  wide.channels = channels;
  check_bytes(argument, wide, dtype);
  return channels;
}

}  // namespace

Pitches pitches_of(convt_layout layout, const Shape& shape, std::int64_t within) {
  const std::int64_t pixels = volume(shape.space);
  return layout == CONVT_CHANNELS_FIRST ? Pitches{within * pixels, pixels, 1} : Pitches{within * pixels, 1, within};
}

bool Descriptor::keeps_conv() const {
  return std::any_of(stages.begin(), stages.end(), [](const Stage& stage) { return uses_conv(stage.op); });
}

std::size_t Descriptor::kept_at(const Name& name) const {
  const auto keeps = [&](const Stage& stage) {
    const Name* own = kept_name(stage.op);
    return own != nullptr && *own == name;
  };
  return static_cast<std::size_t>(std::find_if(stages.begin(), stages.end(), keeps) - stages.begin());
}

Descriptor validate(const Problem& problem) {
  if (problem.dims < 1 || problem.dims > 3) reject("dims", "must be 1, 2 or 3 (got {})", problem.dims);
  check_enums(problem);
  Descriptor d;
  d.dims = static_cast<int>(problem.dims);
  d.dtype = problem.dtype;
  d.input_layout = problem.input_layout;
  d.output_layout = problem.output_layout;
  d.precision = problem.precision;
  const std::int64_t batch = size("batch_size", problem.batch_size, 0);
  const Convolution c = d.convolution = convolution(problem);
  d.input = {d.dims, batch, c.in_channels, c.input};
  d.conv = d.output = {d.dims, batch, c.out_channels, c.output};
  check_bytes("input", d.input, d.dtype);
  std::vector<std::int64_t> kernel{c.in_channels, c.out_channels / c.groups};
  kernel.insert(kernel.end(), c.kernel.end() - d.dims, c.kernel.end());
  d.kernel_count = checked_count("kernel", kernel, d.dtype);
  check_bytes("output", d.conv, d.dtype);
  for (const auto& [name, ops] : {std::pair("prologue", &problem.prologue), std::pair("chain", &problem.chain)})
    if (ops->size() > most_ops) reject(name, "must have at most {} ops (got {})", most_ops, ops->size());
  for (const Op& op : problem.prologue) add_prologue(d, op);
  std::vector<KeptShape> kept{{conv_name, d.conv}};
  for (const Op& op : problem.chain) add_stage(d, op, kept);
  d.input_within = within("input_within", problem.input_within, d.input, d.dtype);
  d.output_within = within("output_within", problem.output_within, d.output, d.dtype);
  Problem canonical = problem;
  const bool slices = d.slices_input() || d.slices_output();
  canonical.input_within = slices ? static_cast<std::size_t>(d.input_within) : 0;
  canonical.output_within = slices ? static_cast<std::size_t>(d.output_within) : 0;
  d.text = print(canonical);
  d.chain = print(problem.chain);
  d.prologue_text = print(problem.prologue);
  return d;
}

}  // namespace convt::core
