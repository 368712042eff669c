// SPDX-License-Identifier: Apache-2.0
// Plans: any transposed convolution with any chain of operations behind it. Included by convt.hpp.
#ifndef CONVT_PLAN_HPP
#define CONVT_PLAN_HPP

#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "convt/base.hpp"
#include "convt/convt.h"

namespace convt {

// What to compute; see convt_problem. Only the sizes without a default must be given.
struct Problem {
  std::size_t dims = 0;  // 0: as many as `input` has entries
  DType dtype = DType::f32;
  Layout input_layout = Layout::channels_first;
  Layout output_layout = Layout::channels_first;
  Float32Precision precision = Float32Precision::ieee;
  std::size_t batch_size = 1;
  std::size_t in_channels = 0;
  std::size_t out_channels = 0;
  std::size_t groups = 1;
  Sizes input = {};
  Sizes kernel = {};
  Sizes stride = {1};
  Sizes padding = {0};
  Sizes output_padding = {0};
  Sizes dilation = {1};
  std::string chain = {};     // e.g. "bias | max_pool(2) | gelu"
  std::string prologue = {};  // ops on the input before the convolution, e.g. "batch_norm | relu"
  // Channels of the tensors in memory, where those of the input or the output are a range of them; 0: they are all.
  std::size_t input_within = 0;
  std::size_t output_within = 0;
};

// How to run it; see convt_plan_options.
struct PlanOptions {
  Device device = Device::cpu;
  int device_index = 0;
  std::string engine = {};          // empty: the best that accepts the problem
  std::size_t workspace_limit = 0;  // bytes; 0: no limit
  bool native_tf32 = false;         // CONVT_TF32_PRODUCTS_NATIVE
  bool plain_ieee = false;          // CONVT_IEEE_PRODUCTS_PLAIN
};

struct TensorInfo {
  std::string name;
  std::size_t stage = 0;
  DType dtype = DType::f32;
  Layout layout = Layout::channels_first;
  Sizes shape = {};  // in logical order whatever the layout
  std::size_t bytes = 0;
  Sizes strides = {};  // in elements, in the order of `shape`

  std::size_t elements() const { return detail::product(shape); }
  // Elements from the first to behind the last: more than there are in a range of a wider tensor's channels.
  std::size_t extent() const { return elements() == 0 ? 0 : bytes / element_size(); }
  bool is_range() const { return strides != dense_strides(); }

  // Those of a tensor that has these elements alone.
  Sizes dense_strides() const {
    Sizes dense(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;) dense[axis - 1] = dense[axis] * shape[axis];
    if (layout == Layout::channels_first || shape.size() < 3) return dense;
    for (std::size_t axis = 2; axis < shape.size(); ++axis) dense[axis] *= shape[1];
    dense[1] = 1;
    return dense;
  }
  std::size_t element_size() const { return dtype == DType::f64 ? 8 : dtype == DType::f32 ? 4 : 2; }
};

// A tensor that is only read, with its element type erased: made from a span, vector, array, ... of an Element type.
// Refers to the memory, does not own it.
class Operand {
 public:
  template <class Container, Element T = std::remove_cvref_t<decltype(*std::data(std::declval<const Container&>()))>>
  Operand(const Container& values) : data_(std::data(values)), size_(std::size(values)), dtype_(dtype_of<T>) {}

  const void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  DType dtype() const noexcept { return dtype_; }

 private:
  const void* data_;
  std::size_t size_;
  DType dtype_;
};

// What one execution reads and writes.
template <Element T>
struct Tensors {
  std::span<const T> input = {};
  std::span<const T> kernel = {};  // ignored once the plan has packed a kernel; may then be empty
  std::span<T> output = {};
  std::vector<Operand> operands = {};   // of Plan::operand_infos(), in that order
  std::span<std::byte> workspace = {};  // empty: the library provides it; else a Workspace, or see convt_tensors
  void* stream = nullptr;               // a cudaStream_t, for device plans
  const convt_thread_pool* thread_pool = nullptr;  // the caller's threads, on the CPU; null: the library's own
};

struct Products {
  double needed = 0;
  double scattered = 0;
};

// A transposed convolution with its chain, bound to a device and an engine. Any number of threads may execute one plan
// at once. A plan that was moved from may only be destroyed or assigned to.
class Plan {
 public:
  explicit Plan(const Problem& problem, const PlanOptions& options = {}) : Plan(create(problem, options)) {}

  static Plan from_text(std::string_view text, const PlanOptions& options = {}) {
    const std::string owned(text);
    return Plan(create(convt_plan_create_from_text, detail::c_text("text", owned), options));
  }

  const TensorInfo& input_info() const noexcept { return input_; }
  const TensorInfo& kernel_info() const noexcept { return kernel_; }
  const TensorInfo& output_info() const noexcept { return output_; }
  const std::vector<TensorInfo>& operand_infos() const noexcept { return operands_; }

  // What it computes; the options and a packed kernel are no part of it.
  Problem problem() const {
    convt_problem c = CONVT_PROBLEM_INIT;
    detail::check(convt_plan_problem(get(), &c));
    const auto sizes = [&](const std::size_t(&axes)[3]) { return Sizes(axes, axes + c.dims); };
    return {.dims = c.dims,
            .dtype = static_cast<DType>(c.dtype),
            .input_layout = static_cast<Layout>(c.input_layout),
            .output_layout = static_cast<Layout>(c.output_layout),
            .precision = static_cast<Float32Precision>(c.precision),
            .batch_size = c.batch_size,
            .in_channels = c.in_channels,
            .out_channels = c.out_channels,
            .groups = c.groups,
            .input = sizes(c.input),
            .kernel = sizes(c.kernel),
            .stride = sizes(c.stride),
            .padding = sizes(c.padding),
            .output_padding = sizes(c.output_padding),
            .dilation = sizes(c.dilation),
            .chain = c.chain,
            .prologue = c.prologue,
            .input_within = c.input_within,
            .output_within = c.output_within};
  }

  // Bytes of scratch memory one execution needs.
  std::size_t workspace_size() const {
    std::size_t bytes = 0;
    detail::check(convt_plan_workspace_size(get(), &bytes));
    return bytes;
  }

  // Keeps a copy of a kernel that does not change between executions. No other thread may use the plan meanwhile.
  void pack_kernel(const Operand& kernel, void* stream = nullptr) {
    check_tensor("kernel", kernel, kernel_);
    detail::check(convt_plan_pack_kernel(get(), kernel.data(), stream));
    packed_ = true;
  }

  template <Element T>
  void execute(const Tensors<T>& tensors) const {
    check_tensor("input", tensors.input, input_);
    if (!packed_ || !tensors.kernel.empty()) check_tensor("kernel", tensors.kernel, kernel_);
    check_tensor("output", tensors.output, output_);
    if (tensors.operands.size() != operands_.size())
      detail::reject("operands", "must be " + std::to_string(operands_.size()) + ", what the chain takes (got " +
                                     std::to_string(tensors.operands.size()) + ")");
    std::vector<const void*> operands;
    for (const Operand& operand : tensors.operands) {
      const TensorInfo& info = operands_[operands.size()];
      check_tensor("operands[" + std::to_string(operands.size()) + "] (" + info.name + ")", operand, info);
      operands.push_back(operand.data());
    }
    const std::span<std::byte> workspace = tensors.workspace;
    if (!workspace.empty() && workspace.size() < workspace_size())
      detail::reject("workspace", "must have at least " + std::to_string(workspace_size()) + " bytes (got " +
                                      std::to_string(workspace.size()) + ")");

    convt_tensors c = CONVT_TENSORS_INIT;
    c.input = tensors.input.data();
    c.kernel = tensors.kernel.data();
    c.output = tensors.output.data();
    c.operands = operands.data();
    c.operand_count = operands.size();
    c.workspace = workspace.empty() ? nullptr : workspace.data();
    c.workspace_size = workspace.size();
    c.stream = tensors.stream;
    c.thread_pool = tensors.thread_pool;
    detail::check(convt_plan_execute(get(), &c));
  }

  std::string text() const { return owned_text(convt_plan_text(get())); }
  std::string explain() const { return owned_text(convt_plan_explain(get())); }
  std::string engine() const { return owned_text(convt_plan_engine(get())); }

  Products products() const {
    Products products;
    detail::check(convt_plan_products(get(), &products.needed, &products.scattered));
    return products;
  }

  // Of one execution, by the engine's cost model.
  double predicted_seconds() const {
    double seconds = 0;
    detail::check(convt_plan_predicted_seconds(get(), &seconds));
    return seconds;
  }

  // For calls into the C ABI; the plan stays the owner.
  convt_plan* get() const noexcept { return plan_.get(); }

 private:
  struct Destroy {
    void operator()(convt_plan* plan) const noexcept { convt_plan_destroy(plan); }
  };
  using Handle = std::unique_ptr<convt_plan, Destroy>;

  explicit Plan(Handle plan) : plan_(std::move(plan)) {
    input_ = info([this](auto* c) { return convt_plan_input_info(get(), c); });
    input_.strides = strides(convt_plan_input_strides, input_);
    kernel_ = info([this](auto* c) { return convt_plan_kernel_info(get(), c); });
    output_ = info([this](auto* c) { return convt_plan_output_info(get(), c); });
    output_.strides = strides(convt_plan_output_strides, output_);
    for (std::size_t i = 0; i < convt_plan_operand_count(get()); ++i)
      operands_.push_back(info([this, i](auto* c) { return convt_plan_operand_info(get(), i, c); }));
  }

  static Handle create(const Problem& problem, const PlanOptions& options) {
    const convt_problem c = to_c(problem);
    return create(convt_plan_create, &c, options);
  }

  static Handle create(auto c_create, const auto* what, const PlanOptions& options) {
    convt_plan_options c = CONVT_PLAN_OPTIONS_INIT;
    c.device = static_cast<convt_device>(options.device);
    c.device_index = options.device_index;
    c.engine = options.engine.empty() ? nullptr : detail::c_text("engine", options.engine);
    c.workspace_limit = options.workspace_limit;
    c.tf32_products = options.native_tf32 ? CONVT_TF32_PRODUCTS_NATIVE : CONVT_TF32_PRODUCTS_ANY;
    c.ieee_products = options.plain_ieee ? CONVT_IEEE_PRODUCTS_PLAIN : CONVT_IEEE_PRODUCTS_ANY;
    convt_plan* plan = nullptr;
    detail::check(c_create(&plan, what, &c));
    return Handle(plan);
  }

  static TensorInfo info(auto ask) {
    convt_tensor_info c = {};
    detail::check(ask(&c));
    const Sizes shape(c.shape, c.shape + c.rank);
    TensorInfo info{c.name, c.stage, static_cast<DType>(c.dtype), static_cast<Layout>(c.layout), shape, c.bytes, {}};
    info.strides = info.dense_strides();
    return info;
  }

  Sizes strides(auto ask, const TensorInfo& info) const {
    std::size_t c[5] = {};
    detail::check(ask(get(), c));
    return Sizes(c, c + info.shape.size());
  }

  static convt_problem to_c(const Problem& problem) {
    convt_problem c = CONVT_PROBLEM_INIT;
    c.dims = problem.dims == 0 ? problem.input.size() : problem.dims;
    c.dtype = static_cast<convt_dtype>(problem.dtype);
    c.input_layout = static_cast<convt_layout>(problem.input_layout);
    c.output_layout = static_cast<convt_layout>(problem.output_layout);
    c.precision = static_cast<convt_float32_precision>(problem.precision);
    c.batch_size = problem.batch_size;
    c.in_channels = problem.in_channels;
    c.out_channels = problem.out_channels;
    c.groups = problem.groups;
    c.chain = detail::c_text("chain", problem.chain);
    c.prologue = detail::c_text("prologue", problem.prologue);
    c.input_within = problem.input_within;
    c.output_within = problem.output_within;
    if (c.dims < 1 || c.dims > 3) return c;  // convt_plan_create() says why not
    detail::fill_axes("input", problem.input, c.dims, c.input);
    detail::fill_axes("kernel", problem.kernel, c.dims, c.kernel);
    detail::fill_axes("stride", problem.stride, c.dims, c.stride);
    detail::fill_axes("padding", problem.padding, c.dims, c.padding);
    detail::fill_axes("output_padding", problem.output_padding, c.dims, c.output_padding);
    detail::fill_axes("dilation", problem.dilation, c.dims, c.dilation);
    return c;
  }

  static void check_tensor(const std::string& argument, const Operand& tensor, const TensorInfo& info) {
    if (tensor.dtype() != info.dtype)
      detail::reject(
          argument, "must have elements of type " + to_string(info.dtype) + " (got " + to_string(tensor.dtype()) + ")");
    if (!info.is_range()) return detail::check_count(argument, tensor.size(), info.shape);
    if (tensor.size() < info.extent())
      detail::reject(argument, "must have at least " + std::to_string(info.extent()) +
                                   " elements, from the range's first to its last (got " +
                                   std::to_string(tensor.size()) + ")");
  }

  // A plan that exists has all its texts, unless there was no memory to write one.
  static std::string owned_text(const char* text) {
    if (text == nullptr) throw Error(Status::out_of_memory, convt_last_error());  // a plan's text fails no other way
    return text;
  }

  Handle plan_;
  TensorInfo input_, kernel_, output_;
  std::vector<TensorInfo> operands_;
  bool packed_ = false;
};

// Host memory for the workspace of a plan's executions, aligned as convt_tensors asks. One at a time may use it.
//   convt::Workspace workspace(plan);
//   plan.execute<float>({.input = x, .kernel = w, .output = y, .workspace = workspace});
class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : size_(bytes), data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}))) {}
  explicit Workspace(const Plan& plan) : Workspace(plan.workspace_size()) {}

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  operator std::span<std::byte>() const noexcept { return {data(), size()}; }

 private:
  static constexpr std::size_t alignment = 64;
  struct Free {
    void operator()(std::byte* data) const noexcept { ::operator delete (data, std::align_val_t{alignment}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace convt

#endif  // CONVT_PLAN_HPP
