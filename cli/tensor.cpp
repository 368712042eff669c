// SPDX-License-Identifier: Apache-2.0
#include "tensor.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

namespace convt::cli {
namespace {

template <class Vector>
using ElementOf = typename std::remove_cvref_t<Vector>::value_type;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

struct Recipe {
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
  Fill fill = Fill::unit;
  std::string_view name = {};
  bool may_be_special = false;

  double operator()(std::uint64_t element) const {
    const std::uint64_t z =
        mix(seed * 0x9E3779B97F4A7C15U + (tensor + 1) * 0xBF58476D1CE4E5B9U + element * 0x94D049BB133111EBU);
    const double u = static_cast<double>(z >> 11) * 0x1p-53;
    if (name.ends_with(".var")) return 0.5 + u;
    if (name.ends_with("div.other")) return u < 0.5 ? -0.5 - u : 0.5 + u;
    if (fill == Fill::unit) return u;
    if (fill == Fill::special_values && may_be_special && (z & 63) <= 2) {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      return (z & 63) == 0 ? std::numeric_limits<double>::quiet_NaN() : (z & 63) == 1 ? infinity : -infinity;
    }
    return 2 * u - 1;
  }
};

Tensor draw(const TensorInfo& info, Recipe recipe) {
  recipe.name = info.name;
  Tensor tensor = make_tensor(info.dtype, info.elements());
  std::visit(
      [&](auto& elements) {
        for (std::size_t i = 0; i < elements.size(); ++i)
          elements[i] = from_double<ElementOf<decltype(elements)>>(recipe(i));
      },
      tensor);
  return tensor;
}

Tensor convert(const Tensor& tensor, TensorInfo from, const TensorInfo& to) {
  from.shape = to.shape;  // fewer images: those at the beginning
  return make_tensor(to.dtype, to_channels_first(to_doubles(tensor, to.elements()), from));
}

}  // namespace

Tensor make_tensor(DType dtype, std::size_t count) {
  switch (dtype) {
    case DType::f32:
      return std::vector<float>(count);
    case DType::f64:
      return std::vector<double>(count);
    case DType::f16:
      return std::vector<f16>(count);
    case DType::bf16:
      break;
  }
  return std::vector<bf16>(count);
}

Tensor make_tensor(DType dtype, std::span<const double> values) {
  Tensor tensor = make_tensor(dtype, values.size());
  std::visit(
      [&](auto& elements) {
        std::transform(values.begin(), values.end(), elements.begin(), from_double<ElementOf<decltype(elements)>>);
      },
      tensor);
  return tensor;
}

std::vector<double> to_doubles(const Tensor& tensor, std::size_t count) {
  return std::visit(
      [&](const auto& elements) {
        std::vector<double> values(std::min(count, elements.size()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_double(elements[i]);
        return values;
      },
      tensor);
}

std::vector<double> to_channels_first(std::vector<double> values, const TensorInfo& info) {
  if (info.layout == Layout::channels_first || values.empty()) return values;
  const std::size_t batch = info.shape[0], channels = info.shape[1], pixels = values.size() / batch / channels;
  std::vector<double> result;
  result.reserve(values.size());
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t p = 0; p < pixels; ++p) result.push_back(values[(n * pixels + p) * channels + c]);
  return result;
}

Inputs make_inputs(const Plan& plan, std::uint64_t seed, Fill fill) {
  Recipe recipe{.seed = seed, .fill = fill};
  const auto next = [&](const TensorInfo& info) {
    recipe.may_be_special = info.name != "kernel" && info.shape.size() == plan.input_info().shape.size();
    Tensor tensor = draw(info, recipe);
    ++recipe.tensor;
    return tensor;
  };
  Inputs inputs;
  inputs.input = next(plan.input_info());
  inputs.kernel = next(plan.kernel_info());
  for (const TensorInfo& info : plan.operand_infos()) inputs.operands.push_back(next(info));
  return inputs;
}

Inputs convert_inputs(const Inputs& inputs, const Plan& from, const Plan& to) {
  Inputs result{convert(inputs.input, from.input_info(), to.input_info()),
                convert(inputs.kernel, from.kernel_info(), to.kernel_info()),
                {}};
  for (std::size_t i = 0; i < inputs.operands.size(); ++i)
    result.operands.push_back(convert(inputs.operands[i], from.operand_infos()[i], to.operand_infos()[i]));
  return result;
}

}  // namespace convt::cli
