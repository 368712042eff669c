// SPDX-License-Identifier: Apache-2.0
#include "support/named_functions.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace convt::testing {
namespace {

enum class Tail { none, scalar };

template <std::size_t count, bool bias, Tail tail, class T, class F>
auto adapt(F f) {
  return [f](const void* input, const void* kernel, const void* conv_bias, void* output,
             const std::vector<std::size_t>& sizes, double scalar) {
    if (sizes.size() != count) throw std::logic_error("wrong number of sizes");
    const T* in = static_cast<const T*>(input);
    const T* k = static_cast<const T*>(kernel);
    T* out = static_cast<T*>(output);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (bias)
        return f(in, k, static_cast<const T*>(conv_bias), out, sizes[I]...);
      else if constexpr (tail == Tail::scalar)
        return f(in, k, out, sizes[I]..., scalar);
      else
        return f(in, k, out, sizes[I]...);
    }
    (std::make_index_sequence<count>{});
  };
}

template <std::size_t count, class F>
auto adapt_shape(F f) {
  return [f](const std::vector<std::size_t>& sizes, std::size_t* shape) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return f(sizes[I]..., shape); }
    (std::make_index_sequence<count>{});
  };
}

std::vector<std::string> parameters_of(const std::string& slug, std::size_t count) {
  for (std::size_t i = 0; i < convt_named_problem_count(); ++i) {
    convt_named_problem_description row;
    convt_named_problem_describe(i, &row);
    if (row.slug != slug) continue;
    std::istringstream words(row.parameters);
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    all.resize(count);
    return all;
  }
  throw std::logic_error("no such problem: " + slug);
}

#define FUNCTION(slug, c_name, dims, count, bias, tail)                \
  NamedFunction {                                                      \
    slug, dims, bias, parameters_of(slug, count),                      \
        {adapt<count, bias, tail, float>(convt_##c_name##_f32),        \
         adapt<count, bias, tail, double>(convt_##c_name##_f64),       \
         adapt<count, bias, tail, convt_f16>(convt_##c_name##_f16),    \
         adapt<count, bias, tail, convt_bf16>(convt_##c_name##_bf16)}, \
        adapt_shape<count>(convt_##c_name##_output_shape)              \
  }

}  // namespace

const std::vector<NamedFunction>& named_functions() {
  static const std::vector<NamedFunction> all{
      FUNCTION("conv-transpose-2d-square-input-asym-kernel", conv_transpose_2d_square_input_asym_kernel, 2, 16, false,
               Tail::none),
      FUNCTION("conv-transpose-3d-asym-input-sq-kernel", conv_transpose_3d_asym_input_sq_kernel, 3, 22, false,
               Tail::none),
      FUNCTION("conv-transpose3d-max-max-sum", conv_transpose3d_max_max_sum, 3, 15, true, Tail::none),
      FUNCTION("conv-transpose3d-layernorm-gelu-scaling", conv_transpose3d_layernorm_gelu_scaling, 3, 18, false,
               Tail::scalar),
      FUNCTION("conv-transpose3d-sum-layernorm-avgpool-gelu", conv_transpose3d_sum_layernorm_avgpool_gelu, 3, 18, false,
               Tail::scalar),
  };
  return all;
}

bool NamedFunction::has(const std::string& parameter) const {
  return std::find(parameters.begin(), parameters.end(), parameter) != parameters.end();
}

std::size_t NamedFunction::index(const std::string& parameter) const {
  if (!has(parameter)) throw std::logic_error(slug + " has no " + parameter);
  return static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), parameter) - parameters.begin());
}

std::vector<std::size_t> NamedFunction::example() const {
  std::vector<std::size_t> sizes;
  for (const std::string& name : parameters) {
    const auto starts = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
    std::size_t value = 0;
    if (name == "batch_size" || name == "in_channels") value = 2;
    if (name == "out_channels") value = 4;
    if (name == "depth" || name == "height" || name == "width") value = 5;
    if (starts("kernel")) value = 3;
    if (starts("stride")) value = 2;
    if (starts("dilation") || name == "groups") value = 1;
    sizes.push_back(value);
  }
  return sizes;
}

}  // namespace convt::testing
