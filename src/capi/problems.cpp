// SPDX-License-Identifier: Apache-2.0
// The five named problems: each function is its row of the table with the arguments filled in.
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <memory>
#include <utility>

#include "backends.hpp"
#include "base/settings.hpp"
#include "capi/guard.hpp"
#include "plan/cache.hpp"
#include "plan/environment.hpp"
#include "problem/named.hpp"

using namespace convt;
using convt::capi::guard;

namespace {

struct Pointers {
  const void* input;
  const void* kernel;
  const void* bias;  // null for problems without one
  void* output;
};
using Sizes = std::initializer_list<size_t>;

core::Problem fill(const char* slug, Sizes sizes, double scalar) {
  return core::instantiate(core::named_problem(slug), {sizes.begin(), sizes.size()}, scalar);
}

// One call, before anyone has checked it.
struct Asked {
  const char* slug;
  convt_dtype dtype;
  const Pointers& pointers;
  Sizes sizes;
  double scalar;
};

core::PlanKey key_of(const Asked& asked) {
  core::PlanKey key;
  key.row = &core::named_problem(asked.slug);
  key.dtype = asked.dtype;
  key.precision = core::thread_settings().precision;
  std::copy(asked.sizes.begin(), asked.sizes.end(), key.sizes.begin());
  key.scalar = std::bit_cast<std::uint64_t>(asked.scalar);
  key.location = core::backends().locate(asked.pointers.output);
  key.threads = core::num_threads();
  const core::Environment environment = core::environment();
  key.engine = environment.engine;
  key.isa = environment.isa;
  key.tile = environment.tile;
  key.tf32 = environment.tf32;
  key.ieee = environment.ieee;
  return key;
}

core::Call call_of(const Asked& asked) {
  const auto names = core::named_problem(asked.slug).operands;
  return {.input = asked.pointers.input,
          .kernel = asked.pointers.kernel,
          .output = asked.pointers.output,
          .operands = {&asked.pointers.bias, names.size()},
          .operand_names = names,
          .stream = core::thread_settings().stream};
}

std::shared_ptr<const core::Plan> make_plan(const Asked& asked) {
  core::Problem problem = fill(asked.slug, asked.sizes, asked.scalar);
  problem.dtype = asked.dtype;
  problem.precision = core::thread_settings().precision;
  core::Descriptor descriptor = core::validate(problem);
  core::PlanOptions options;
  options.location = core::check_tensors(descriptor, call_of(asked), false, core::backends().locate);
  return std::make_shared<const core::Plan>(std::move(descriptor), options, core::backends());
}

convt_status run(const char* slug, convt_dtype dtype, const Pointers& pointers, Sizes sizes, double scalar = 0) {
  return guard([&] {
    const Asked asked{slug, dtype, pointers, sizes, scalar};
    const core::PlanKey key = key_of(asked);
    auto plan = core::plan_cache().find(key);
    if (plan == nullptr) {
      plan = make_plan(asked);
      // An empty output has no place: its plan is for that of the other tensors.
      if (plan->descriptor().output.count() != 0) core::plan_cache().insert(key, plan);
    }
    plan->execute(call_of(asked));
  });
}

convt_status shape(const char* slug, Sizes sizes, size_t* output_shape) {
  return guard([&] {
    capi::not_null("output_shape", output_shape);
    const auto all = core::validate(fill(slug, sizes, 1.0)).output.sizes();
    std::copy(all.begin(), all.end(), output_shape);
  });
}

}  // namespace

// Parameter lists and their values, once per shape of list; the functions below differ in element type alone.
#define BASE_PARAMETERS_3D                                                                                  \
  size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,    \
      size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w, \
      size_t padding_d, size_t padding_h, size_t padding_w
#define BASE_VALUES_3D                                                                                           \
  batch_size, in_channels, out_channels, depth, height, width, kernel_d, kernel_h, kernel_w, stride_d, stride_h, \
      stride_w, padding_d, padding_h, padding_w
#define OUTPUT_PADDING_PARAMETERS_3D size_t output_padding_d, size_t output_padding_h, size_t output_padding_w
#define OUTPUT_PADDING_VALUES_3D output_padding_d, output_padding_h, output_padding_w
#define PLAIN_PARAMETERS_3D                                                                                  \
  BASE_PARAMETERS_3D, OUTPUT_PADDING_PARAMETERS_3D, size_t dilation_d, size_t dilation_h, size_t dilation_w, \
      size_t groups
#define PLAIN_VALUES_3D BASE_VALUES_3D, OUTPUT_PADDING_VALUES_3D, dilation_d, dilation_h, dilation_w, groups
#define PLAIN_PARAMETERS_2D                                                                                           \
  size_t batch_size, size_t in_channels, size_t out_channels, size_t height, size_t width, size_t kernel_h,           \
      size_t kernel_w, size_t stride_h, size_t stride_w, size_t padding_h, size_t padding_w, size_t output_padding_h, \
      size_t output_padding_w, size_t dilation_h, size_t dilation_w, size_t groups
#define PLAIN_VALUES_2D                                                                                               \
  batch_size, in_channels, out_channels, height, width, kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, \
      output_padding_h, output_padding_w, dilation_h, dilation_w, groups

#define DEFINE_FOR(suffix, T, dtype)                                                                                  \
  convt_status convt_conv_transpose_2d_square_input_asym_kernel_##suffix(const T* input, const T* kernel, T* output,  \
                                                                         PLAIN_PARAMETERS_2D) {                       \
    return run("conv-transpose-2d-square-input-asym-kernel", dtype, {input, kernel, nullptr, output},                 \
               {PLAIN_VALUES_2D});                                                                                    \
  }                                                                                                                   \
  convt_status convt_conv_transpose_3d_asym_input_sq_kernel_##suffix(const T* input, const T* kernel, T* output,      \
                                                                     PLAIN_PARAMETERS_3D) {                           \
    return run("conv-transpose-3d-asym-input-sq-kernel", dtype, {input, kernel, nullptr, output}, {PLAIN_VALUES_3D}); \
  }                                                                                                                   \
  convt_status convt_conv_transpose3d_max_max_sum_##suffix(const T* input, const T* kernel, const T* conv_bias,       \
                                                           T* output, BASE_PARAMETERS_3D) {                           \
    return run("conv-transpose3d-max-max-sum", dtype, {input, kernel, conv_bias, output}, {BASE_VALUES_3D});          \
  }                                                                                                                   \
  convt_status convt_conv_transpose3d_layernorm_gelu_scaling_##suffix(                                                \
      const T* input, const T* kernel, T* output, BASE_PARAMETERS_3D, OUTPUT_PADDING_PARAMETERS_3D,                   \
      double scaling_factor) {                                                                                        \
    return run("conv-transpose3d-layernorm-gelu-scaling", dtype, {input, kernel, nullptr, output},                    \
               {BASE_VALUES_3D, OUTPUT_PADDING_VALUES_3D}, scaling_factor);                                           \
  }                                                                                                                   \
  convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_##suffix(                                            \
      const T* input, const T* kernel, T* output, BASE_PARAMETERS_3D, OUTPUT_PADDING_PARAMETERS_3D,                   \
      double sum_weight) {                                                                                            \
    return run("conv-transpose3d-sum-layernorm-avgpool-gelu", dtype, {input, kernel, nullptr, output},                \
               {BASE_VALUES_3D, OUTPUT_PADDING_VALUES_3D}, sum_weight);                                               \
  }

extern "C" {

DEFINE_FOR(f32, float, CONVT_F32)
DEFINE_FOR(f64, double, CONVT_F64)
DEFINE_FOR(f16, convt_f16, CONVT_F16)
DEFINE_FOR(bf16, convt_bf16, CONVT_BF16)

convt_status convt_conv_transpose_2d_square_input_asym_kernel_output_shape(PLAIN_PARAMETERS_2D,
                                                                           size_t output_shape[4]) {
  return shape("conv-transpose-2d-square-input-asym-kernel", {PLAIN_VALUES_2D}, output_shape);
}
convt_status convt_conv_transpose_3d_asym_input_sq_kernel_output_shape(PLAIN_PARAMETERS_3D, size_t output_shape[5]) {
  return shape("conv-transpose-3d-asym-input-sq-kernel", {PLAIN_VALUES_3D}, output_shape);
}
convt_status convt_conv_transpose3d_max_max_sum_output_shape(BASE_PARAMETERS_3D, size_t output_shape[5]) {
  return shape("conv-transpose3d-max-max-sum", {BASE_VALUES_3D}, output_shape);
}
convt_status convt_conv_transpose3d_layernorm_gelu_scaling_output_shape(BASE_PARAMETERS_3D,
                                                                        OUTPUT_PADDING_PARAMETERS_3D,
                                                                        size_t output_shape[5]) {
  return shape("conv-transpose3d-layernorm-gelu-scaling", {BASE_VALUES_3D, OUTPUT_PADDING_VALUES_3D}, output_shape);
}
convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape(BASE_PARAMETERS_3D,
                                                                            OUTPUT_PADDING_PARAMETERS_3D,
                                                                            size_t output_shape[5]) {
  return shape("conv-transpose3d-sum-layernorm-avgpool-gelu", {BASE_VALUES_3D, OUTPUT_PADDING_VALUES_3D}, output_shape);
}

}  // extern "C"
