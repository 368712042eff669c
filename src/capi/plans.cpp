// SPDX-License-Identifier: Apache-2.0
// The general interface: plans.
#include <algorithm>
#include <string>

#include "backends.hpp"
#include "base/dtype.hpp"
#include "capi/guard.hpp"
#include "epilogue/text.hpp"
#include "plan/work.hpp"

struct convt_plan {
  convt::core::Plan plan;
};

using namespace convt;
using convt::capi::guard;

namespace {

// Sizes of the structs in version 0.1, the first.
constexpr std::size_t first_problem_size = 216;
constexpr std::size_t first_options_size = 32;
constexpr std::size_t first_tensors_size = 104;
// In version 0.2, the first that has it.
constexpr std::size_t first_thread_pool_size = 32;
static_assert(sizeof(convt_problem) >= first_problem_size && sizeof(convt_plan_options) >= first_options_size &&
              sizeof(convt_tensors) >= first_tensors_size && sizeof(convt_thread_pool) >= first_thread_pool_size);

core::Problem from_struct(const convt_problem* pointer) {
  const convt_problem from = capi::sized_copy("problem", pointer, CONVT_PROBLEM_INIT, first_problem_size);
  core::Problem problem;
  problem.dims = from.dims;
  problem.dtype = from.dtype;
  problem.input_layout = from.input_layout;
  problem.output_layout = from.output_layout;
  problem.precision = from.precision;
  problem.batch_size = from.batch_size;
  problem.in_channels = from.in_channels;
  problem.out_channels = from.out_channels;
  problem.groups = from.groups;
  if (from.dims >= 1 && from.dims <= 3) {  // anything else is refused later, with its message
    const auto align = [&](const size_t(&sizes)[3], core::RawAxes& axes) {
      std::copy_n(sizes, from.dims, axes.end() - static_cast<std::ptrdiff_t>(from.dims));
    };
    align(from.input, problem.input);
    align(from.kernel, problem.kernel);
    align(from.stride, problem.stride);
    align(from.padding, problem.padding);
    align(from.output_padding, problem.output_padding);
    align(from.dilation, problem.dilation);
  }
  if (from.chain != nullptr) problem.chain = core::parse_chain("chain", from.chain);
  if (from.prologue != nullptr) problem.prologue = core::parse_chain("prologue", from.prologue);
  problem.input_within = from.input_within;
  problem.output_within = from.output_within;
  return problem;
}

convt_problem to_struct(const core::Descriptor& d) {
  const core::Convolution& c = d.convolution;
  convt_problem to = CONVT_PROBLEM_INIT;
  to.dims = static_cast<std::size_t>(d.dims);
  to.dtype = d.dtype;
  to.input_layout = d.input_layout;
  to.output_layout = d.output_layout;
  to.precision = d.precision;
  to.batch_size = static_cast<std::size_t>(d.input.batch);
  to.in_channels = static_cast<std::size_t>(c.in_channels);
  to.out_channels = static_cast<std::size_t>(c.out_channels);
  to.groups = static_cast<std::size_t>(c.groups);
  const auto align = [&](const core::Axes& axes, size_t(&sizes)[3]) {
    std::transform(axes.end() - d.dims, axes.end(), sizes, [](std::int64_t n) { return static_cast<std::size_t>(n); });
  };
  align(c.input, to.input);
  align(c.kernel, to.kernel);
  align(c.stride, to.stride);
  align(c.padding, to.padding);
  align(c.output_padding, to.output_padding);
  align(c.dilation, to.dilation);
  to.chain = d.chain.c_str();
  to.prologue = d.prologue_text.c_str();
  to.input_within = d.slices_input() ? static_cast<std::size_t>(d.input_within) : 0;
  to.output_within = d.slices_output() ? static_cast<std::size_t>(d.output_within) : 0;
  return to;
}

core::PlanOptions from_options(const convt_plan_options* pointer) {
  core::PlanOptions options;
  if (pointer == nullptr) return options;
  const convt_plan_options from = capi::sized_copy("options", pointer, CONVT_PLAN_OPTIONS_INIT, first_options_size);
  if (from.device != CONVT_DEVICE_CPU && from.device != CONVT_DEVICE_CUDA)
    core::reject("device", "must be CONVT_DEVICE_CPU or CONVT_DEVICE_CUDA (got {})", static_cast<int>(from.device));
  if (from.device == CONVT_DEVICE_CPU && from.device_index != 0)
    core::reject("device_index", "must be 0 for the CPU (got {})", from.device_index);
  if (from.device_index < 0) core::reject("device_index", "must be at least 0 (got {})", from.device_index);
  options.location = {from.device, from.device_index};
  if (from.engine != nullptr) options.engine = from.engine;
  options.workspace_limit = from.workspace_limit;
  if (from.tf32_products != CONVT_TF32_PRODUCTS_ANY && from.tf32_products != CONVT_TF32_PRODUCTS_NATIVE)
    core::reject("tf32_products", "must be CONVT_TF32_PRODUCTS_ANY or CONVT_TF32_PRODUCTS_NATIVE (got {})",
                 static_cast<int>(from.tf32_products));
  options.native_tf32 = from.tf32_products == CONVT_TF32_PRODUCTS_NATIVE;
  if (from.ieee_products != CONVT_IEEE_PRODUCTS_ANY && from.ieee_products != CONVT_IEEE_PRODUCTS_PLAIN)
    core::reject("ieee_products", "must be CONVT_IEEE_PRODUCTS_ANY or CONVT_IEEE_PRODUCTS_PLAIN (got {})",
                 static_cast<int>(from.ieee_products));
  options.plain_ieee = from.ieee_products == CONVT_IEEE_PRODUCTS_PLAIN;
  return options;
}

template <class MakeProblem>
convt_status create(convt_plan** plan, const convt_plan_options* options, MakeProblem&& make) {
  if (plan != nullptr) *plan = nullptr;
  return guard([&] {
    convt_plan*& result = capi::not_null("plan", plan);
    result = new convt_plan{core::Plan(core::validate(make()), from_options(options), core::backends())};
  });
}

// Of the input or the output.
void describe_range(convt_tensor_info& info, const core::Shape& shape, std::int64_t within, convt_layout layout) {
  if (within == shape.channels || shape.count() == 0) return;
  const core::Pitches step = core::pitches_of(layout, shape, within);
  info.bytes = core::size_of(info.dtype) *
               static_cast<std::size_t>((shape.batch - 1) * step.image + (shape.channels - 1) * step.channel +
                                        (core::volume(shape.space) - 1) * step.pixel + 1);
}

void write_strides(const core::Shape& shape, const core::Pitches& step, size_t* strides) {
  size_t* const to = &capi::not_null("strides", strides);
  std::fill_n(to, 5, std::size_t{0});
  to[0] = static_cast<std::size_t>(step.image);
  to[1] = static_cast<std::size_t>(step.channel);
  std::int64_t pixels = step.pixel;
  for (std::size_t axis = 3; axis-- > 3 - static_cast<std::size_t>(shape.dims);) {
    to[axis + static_cast<std::size_t>(shape.dims) - 1] = static_cast<std::size_t>(pixels);
    pixels *= shape.space[axis];
  }
}

void describe(convt_tensor_info* info, const std::string& name, convt_dtype dtype, convt_layout layout,
              const std::vector<std::int64_t>& sizes, std::size_t stage) {
  convt_tensor_info& to = capi::not_null("info", info);
  to = {};
  name.copy(to.name, sizeof to.name - 1);
  to.stage = stage;
  to.dtype = dtype;
  to.layout = layout;
  to.rank = sizes.size();
  to.bytes = core::size_of(dtype);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    to.shape[i] = static_cast<std::size_t>(sizes[i]);
    to.bytes *= to.shape[i];
  }
}

}  // namespace

extern "C" {

convt_status convt_plan_create(convt_plan** plan, const convt_problem* problem, const convt_plan_options* options) {
  return create(plan, options, [&] { return from_struct(problem); });
}

convt_status convt_plan_create_from_text(convt_plan** plan, const char* text, const convt_plan_options* options) {
  return create(plan, options, [&] { return core::parse_problem(&capi::not_null("text", text)); });
}

void convt_plan_destroy(convt_plan* plan) { delete plan; }

convt_status convt_plan_problem(const convt_plan* plan, convt_problem* problem) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    capi::sized_write("problem", to_struct(d), problem, first_problem_size);
  });
}

convt_status convt_plan_input_info(const convt_plan* plan, convt_tensor_info* info) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    describe(info, "input", d.dtype, d.input_layout, d.input.sizes(), 0);
    describe_range(*info, d.input, d.input_within, d.input_layout);
  });
}

convt_status convt_plan_input_strides(const convt_plan* plan, size_t strides[5]) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    write_strides(d.input, d.input_pitches(), strides);
  });
}

convt_status convt_plan_output_strides(const convt_plan* plan, size_t strides[5]) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    write_strides(d.output, d.output_pitches(), strides);
  });
}

convt_status convt_plan_kernel_info(const convt_plan* plan, convt_tensor_info* info) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    const core::Convolution& c = d.convolution;
    std::vector<std::int64_t> sizes{c.in_channels, c.out_channels / c.groups};
    sizes.insert(sizes.end(), c.kernel.end() - d.dims, c.kernel.end());
    describe(info, "kernel", d.dtype, CONVT_CHANNELS_FIRST, sizes, 0);
  });
}

convt_status convt_plan_output_info(const convt_plan* plan, convt_tensor_info* info) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    describe(info, "output", d.dtype, d.output_layout, d.output.sizes(), 0);
    describe_range(*info, d.output, d.output_within, d.output_layout);
  });
}

size_t convt_plan_operand_count(const convt_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.descriptor().operands.size();
}

convt_status convt_plan_operand_info(const convt_plan* plan, size_t index, convt_tensor_info* info) {
  return guard([&] {
    const core::Descriptor& d = capi::not_null("plan", plan).plan.descriptor();
    if (index >= d.operands.size()) core::reject("index", "must be below {} (got {})", d.operands.size(), index);
    const core::Operand& operand = d.operands[index];
    const bool whole = operand.spec.kind == core::OperandSpec::whole;
    describe(info, operand.spec.name, operand.dtype, whole ? d.output_layout : CONVT_CHANNELS_FIRST, operand.spec.sizes,
             operand.stage);
  });
}

convt_status convt_plan_workspace_size(const convt_plan* plan, size_t* bytes) {
  return guard([&] {
    const core::Plan& p = capi::not_null("plan", plan).plan;
    capi::not_null("bytes", bytes) = p.workspace_size();
  });
}

convt_status convt_plan_pack_kernel(convt_plan* plan, const void* kernel, void* stream) {
  return guard([&] { capi::not_null("plan", plan).plan.pack_kernel(kernel, stream); });
}

convt_status convt_plan_execute(const convt_plan* plan, const convt_tensors* tensors) {
  return guard([&] {
    const core::Plan& p = capi::not_null("plan", plan).plan;
    const convt_tensors t = capi::sized_copy("tensors", tensors, CONVT_TENSORS_INIT, first_tensors_size);
    if (t.operand_count != 0) capi::not_null("operands", t.operands);
    convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
    if (t.thread_pool != nullptr)
      pool = capi::sized_copy("thread_pool", t.thread_pool, CONVT_THREAD_POOL_INIT, first_thread_pool_size);
    p.execute({.input = t.input,
               .kernel = t.kernel,
               .output = t.output,
               .operands = {t.operands, t.operand_count},
               .input_bytes = t.input_bytes,
               .kernel_bytes = t.kernel_bytes,
               .output_bytes = t.output_bytes,
               .operand_bytes = {t.operand_bytes, t.operand_bytes == nullptr ? 0 : t.operand_count},
               .workspace = t.workspace,
               .workspace_size = t.workspace_size,
               .stream = t.stream,
               .thread_pool = t.thread_pool == nullptr ? nullptr : &pool});
  });
}

const char* convt_plan_text(const convt_plan* plan) {
  const char* text = nullptr;
  guard([&] { text = capi::not_null("plan", plan).plan.descriptor().text.c_str(); });
  return text;
}

const char* convt_plan_explain(const convt_plan* plan) {
  const char* text = nullptr;
  guard([&] { text = capi::not_null("plan", plan).plan.explain().c_str(); });
  return text;
}

const char* convt_plan_engine(const convt_plan* plan) {
  const char* text = nullptr;
  guard([&] { text = capi::not_null("plan", plan).plan.engine().c_str(); });
  return text;
}

convt_status convt_plan_products(const convt_plan* plan, double* needed, double* scattered) {
  return guard([&] {
    const core::Work work = core::count_work(capi::not_null("plan", plan).plan.descriptor());
    double& to_needed = capi::not_null("needed", needed);
    capi::not_null("scattered", scattered) = work.scattered;
    to_needed = work.needed;
  });
}

convt_status convt_plan_predicted_seconds(const convt_plan* plan, double* seconds) {
  return guard([&] {
    const double predicted = capi::not_null("plan", plan).plan.predicted_seconds();
    capi::not_null("seconds", seconds) = predicted;
  });
}

}  // extern "C"
