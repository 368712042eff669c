// SPDX-License-Identifier: Apache-2.0
#include "problem/named.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/error.hpp"
#include "epilogue/text.hpp"

namespace convt::core {
namespace {

#define SIZES_2D                                                                                              \
  "batch_size in_channels out_channels height width kernel_h kernel_w stride_h stride_w padding_h padding_w " \
  "output_padding_h output_padding_w dilation_h dilation_w groups"
#define SIZES_3D                                                                                                  \
  "batch_size in_channels out_channels depth height width kernel_d kernel_h kernel_w stride_d stride_h stride_w " \
  "padding_d padding_h padding_w"
#define OUTPUT_PADDING_3D " output_padding_d output_padding_h output_padding_w"

constexpr std::string_view conv_bias[] = {"conv_bias"};

constexpr NamedProblem rows[] = {
    {.slug = "conv-transpose-2d-square-input-asym-kernel",
     .dims = 2,
     .parameters = SIZES_2D,
     .chain = "",
     .benchmark = "batch=8 channels=64->64 input=512 kernel=3x7",
     .demo = "batch=1 channels=64->64 input=48 kernel=3x7"},
    {.slug = "conv-transpose-3d-asym-input-sq-kernel",
     .dims = 3,
     .parameters = SIZES_3D OUTPUT_PADDING_3D " dilation_d dilation_h dilation_w groups",
     .chain = "",
     .benchmark = "batch=8 channels=48->24 input=96 kernel=3",
     .demo = "batch=1 channels=48->24 input=12x16x20 kernel=3"},
    {.slug = "conv-transpose3d-max-max-sum",
     .dims = 3,
     .parameters = SIZES_3D,
     .chain = "bias | max_pool(2) | max_pool(3) | sum",
     .operands = conv_bias,
     .benchmark = "batch=16 channels=32->64 input=32 kernel=5 stride=2 padding=2",
     .demo = "batch=1 channels=32->64 input=8 kernel=5 stride=2 padding=2"},
    {.slug = "conv-transpose3d-layernorm-gelu-scaling",
     .dims = 3,
     .parameters = SIZES_3D OUTPUT_PADDING_3D " scaling_factor",
     .chain = "layer_norm(channels) | gelu | mul(scaling_factor)",
     .benchmark = "batch=32 channels=32->64 input=16x32x32 kernel=4 stride=2 padding=1",
     .demo = "batch=1 channels=32->64 input=4x12x12 kernel=4 stride=2 padding=1",
     .scalar = 0.5},
    {.slug = "conv-transpose3d-sum-layernorm-avgpool-gelu",
     .dims = 3,
     .parameters = SIZES_3D OUTPUT_PADDING_3D " sum_weight",
     .chain = "add(sum_weight) | layer_norm(channels) | avg_pool(2) | gelu",
     .benchmark = "batch=32 channels=32->64 input=16x32x32 kernel=3 stride=2 padding=1 output_padding=1",
     .demo = "batch=1 channels=32->64 input=4x16x16 kernel=3 stride=2 padding=1 output_padding=1",
     .scalar = 1.0},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    result.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return result;
}

// Where a C parameter lives in a Problem; nothing for a scalar.
std::size_t* size_field(Problem& problem, std::string_view name) {
  if (name == "batch_size") return &problem.batch_size;
  if (name == "in_channels") return &problem.in_channels;
  if (name == "out_channels") return &problem.out_channels;
  if (name == "groups") return &problem.groups;
  if (name == "depth") return &problem.input[0];
  if (name == "height") return &problem.input[1];
  if (name == "width") return &problem.input[2];
  for (const AxisParameter& parameter : axis_parameters)
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (name.size() == parameter.name.size() + 2 && name.starts_with(parameter.name) &&
          name.back() == axis_letters[axis])
        return &(problem.*parameter.member)[axis];
  return nullptr;
}

std::string fill_in(std::string_view chain, std::string_view name, double value) {
  std::string text(chain);
  if (const std::size_t at = text.find(name); at != std::string::npos)
    text.replace(at, name.size(), formatted("{}", value));
  return text;
}

}  // namespace

std::span<const NamedProblem> named_problems() { return rows; }

const NamedProblem& named_problem(std::string_view slug) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.slug == slug; });
  assert(row != std::end(rows));
  return *row;
}

Problem instantiate(const NamedProblem& row, std::span<const std::size_t> sizes, double scalar) {
  Problem problem;
  problem.dims = row.dims;
  std::string chain(row.chain);
  std::size_t next = 0;
  for (const std::string_view name : words(row.parameters)) {
    if (std::size_t* field = size_field(problem, name))
      *field = sizes[next++];
    else
      chain = fill_in(row.chain, name, scalar);
  }
  assert(next == sizes.size());
  problem.chain = parse_chain("chain", chain);
  return problem;
}

std::string example_case(const NamedProblem& row, std::string_view fields) {
  const std::string chain = fill_in(row.chain, words(row.parameters).back(), row.scalar);
  return formatted("conv_transpose{}d dtype=f32 {}{}{}", row.dims, fields, chain.empty() ? "" : " | ", chain);
}

}  // namespace convt::core
