// SPDX-License-Identifier: Apache-2.0
// The kernels of convt::conv_transpose, conv_transpose_bare and conv_transpose_out, whose schemas convt.torch defines.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "library.hpp"
#include "plans.hpp"
#include "tensors.hpp"
#include "threads.hpp"

namespace convt_torch {

namespace {

// The kernels' arguments. `text` has the convolution's fields and the chain, but no sizes: "stride=2 groups=4 | bias".
// Behind a prologue the fields begin with a word: "leaky_relu(0.1) | conv_transpose stride=8 | bias".
struct Call {
  const Tensor& input;
  const Tensor& weight;
  const std::vector<Tensor>& operands;
  const std::string& text;
  std::int64_t packed;
};

void append(std::string& text, std::int64_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text.append(digits, end);
}

void append_space(std::string& text, const Shape& shape) {
  for (std::size_t i = 2; i < shape.rank; ++i) {
    if (i > 2) text += 'x';
    append(text, shape.size[i]);
  }
}

// A call's text in three: the prologue with its last bar, the convolution's fields, the chain with its first bar.
struct Parts {
  std::string_view prologue;
  std::string_view fields;
  std::string_view chain;
};

Parts parts_of(std::string_view text) {
  constexpr std::string_view head = "conv_transpose";  // no op is named so
  Parts parts;
  if (const auto at = text.find(head); at != text.npos) {
    parts.prologue = text.substr(0, at);
    text.remove_prefix(at + head.size());
  }
  const auto end = std::min(text.find('|'), text.size());
  parts.fields = text.substr(0, end);
  parts.chain = text.substr(end);
  return parts;
}

std::int64_t groups_in(std::string_view fields) {
  constexpr std::string_view field = "groups=";
  const auto at = fields.find(field);
  std::int64_t groups = 1;
  if (at != fields.npos) std::from_chars(fields.data() + at + field.size(), fields.data() + fields.size(), groups);
  return groups;
}

// What a plan is for. Comparing two of these is cheaper than writing a text.
struct Signature {
  Shape input;
  Shape weight;
  convt_dtype dtype;
  Place from;
  Place to;
  int device_index;
  std::int64_t packed;
  std::uint32_t threads;  // 0 on a device

  bool operator==(const Signature&) const = default;
};

std::string problem_text(const Signature& now, const std::string& call) {
  constexpr std::string_view layouts[] = {"channels_first", "channels_last"};
  const Shape &input = now.input, &weight = now.weight;
  const Parts parts = parts_of(call);
  std::string text;
  text.reserve(192 + call.size());
  text += parts.prologue;
  text += "conv_transpose";
  append(text, static_cast<std::int64_t>(input.rank) - 2);
  text += "d dtype=";
  text += name_of(now.dtype);
  if (now.from.layout != CONVT_CHANNELS_FIRST || now.to.layout != CONVT_CHANNELS_FIRST) {
    text += " layout=";
    text += layouts[now.from.layout];
    text += "->";
    text += layouts[now.to.layout];
  }
  if (now.from.within != 0 || now.to.within != 0) {
    text += " within=";
    append(text, now.from.within);
    text += "->";
    append(text, now.to.within);
  }
  text += " batch=";
  append(text, input.size[0]);
  text += " channels=";
  append(text, input.size[1]);
  text += "->";
  append(text, weight.size[1] * groups_in(parts.fields));
  text += " input=";
  append_space(text, input);
  text += " kernel=";
  append_space(text, weight);
  text += ' ';
  text += parts.fields;
  text += parts.chain;
  return text;
}

// libconvt plans for as many threads as torch.set_num_threads() says.
void follow_threads(std::uint32_t threads) {
  static std::atomic<std::uint32_t> current{0};
  if (current.load(std::memory_order_relaxed) == threads) return;
  check(library().set_num_threads(threads));
  current.store(threads, std::memory_order_relaxed);
}

int device_of(const Tensor& tensor) { return tensor.is_cuda() ? tensor.get_device_index() : -1; }

bool suggest_channels_last(const Call& call, const Shape& input, const Shape& weight) {
  return suggests_channels_last(call.input, input) || suggests_channels_last(call.weight, weight);
}

// The layout that PyTorch's convolution would give its result. Where that depends on how it would compute it, it is
// asked, through Python.
convt_layout pytorchs_layout(const Call& call, const Shape& input, const Shape& weight) {
  if (!suggest_channels_last(call, input, weight)) return CONVT_CHANNELS_FIRST;
  using torch::stable::detail::from;
  std::array<StableIValue, 3> stack{from(call.input), from(call.weight), from(call.text)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("convt::is_channels_last", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<bool>(stack[0]) ? CONVT_CHANNELS_LAST : CONVT_CHANNELS_FIRST;
}

convt_layout layout_of(const std::string& name, const Call& call, const Shape& input, const Shape& weight) {
  if (name == "torch") return pytorchs_layout(call, input, weight);
  if (name == "channels_first") return CONVT_CHANNELS_FIRST;
  if (name == "channels_last") return CONVT_CHANNELS_LAST;
  STD_TORCH_CHECK(name.empty(), "convt: layout '", name, "' is neither channels_first nor channels_last nor torch");
  return suggest_channels_last(call, input, weight) ? CONVT_CHANNELS_LAST : CONVT_CHANNELS_FIRST;
}

// Refuses what libconvt cannot see: it is given pointers.
void check_arguments(const Call& call, const Shape& input, const Shape& weight) {
  STD_TORCH_CHECK(input.rank >= 3 && weight.rank == input.rank, "convt: input has ", input.rank, " axes and weight ",
                  weight.rank, "; both have N, C and one to three of space");
  STD_TORCH_CHECK(weight.size[0] == input.size[1], "convt: weight is for ", weight.size[0],
                  " input channels, and input has ", input.size[1]);
  STD_TORCH_CHECK(dtype_of(call.weight) == dtype_of(call.input), "convt: input and weight differ in dtype");
  const int device = device_of(call.input);
  bool together = device_of(call.weight) == device;
  for (const Tensor& operand : call.operands) together = together && device_of(operand) == device;
  STD_TORCH_CHECK(together, "convt: input, weight and operands are on different devices");
}

// The operand as the plan takes it.
Tensor prepared(const Tensor& operand, const convt_tensor_info& info, std::size_t index) {
  const Shape shape = shape_of(operand);
  STD_TORCH_CHECK(dtype_of(operand) == info.dtype, "convt: operand ", index, " (", info.name, ") is ",
                  name_of(dtype_of(operand)), "; the chain takes ", name_of(info.dtype));
  std::size_t bytes = bytes_of(info.dtype);
  for (std::size_t i = 0; i < shape.rank; ++i) bytes *= static_cast<std::size_t>(shape.size[i]);
  bool fits = bytes == info.bytes;
  // Of one axis, or of one more than one element in each: broadcasting axes of size 1 do not move elements.
  if (info.rank > 1) {
    fits = fits && shape.rank == info.rank;
    for (std::size_t i = 0; fits && i < info.rank; ++i) {
      fits = static_cast<std::size_t>(shape.size[i]) == info.shape[i];
    }
  }
  STD_TORCH_CHECK(fits, "convt: operand ", index, " (", info.name, ") has ", bytes,
                  " bytes or axes that differ; the chain takes ", info.bytes, " bytes in ", info.rank, " axes");
  return dense(operand, shape, info.layout);
}

// The plan of a call. A thread mostly repeats its last ones.
std::shared_ptr<Plan> plan_of(const Call& call, const Signature& now, const Tensor& weight, void* stream) {
  struct Recent {
    Signature signature{};
    std::string text{};
    std::weak_ptr<Plan> plan{};
  };
  thread_local std::array<Recent, 16> recent;
  thread_local std::size_t next = 0;
  const bool capturing = now.device_index >= 0 && now.packed != 0 && is_capturing(stream);
  if (!capturing) {
    for (const Recent& one : recent) {
      if (one.signature == now && one.text == call.text) {
        if (auto plan = one.plan.lock()) return plan;
      }
    }
  }
  Key key{problem_text(now, call.text), now.device_index, now.packed, now.threads};
  // Packing waits for the device, which a capture forbids.
  if (capturing && !is_kept(key)) key.packed = 0;
  auto plan = plan_for(key, weight.const_data_ptr(), stream);
  if (capturing && key.packed != 0) pin(plan);
  if (!capturing) recent[next++ % recent.size()] = {now, call.text, plan};
  return plan;
}

// Where the result goes.
struct Target {
  Tensor tensor;  // undefined: into a new one, which lies so
  Place place;
  bool direct = true;  // false: the tensor lies in neither layout, and the result is copied into it
};

// A captured call may leave the precision of float32 to PyTorch's switches at the time when it runs.
constexpr std::string_view followed_precision = "precision=torch";

Tensor run(const Call& call, const Shape& input_shape, const Shape& weight_shape, const Target& target) {
  if (const auto at = call.text.find(followed_precision); at != call.text.npos) {
    std::string text = call.text;
    text.replace(at, followed_precision.size(),
                 allows_tf32(device_of(call.input)) ? "precision=tf32" : "precision=ieee");
    return run({call.input, call.weight, call.operands, text, call.packed}, input_shape, weight_shape, target);
  }
  check_arguments(call, input_shape, weight_shape);
  const auto source = place_of(call.input, input_shape);
  const int device_index = device_of(call.input);
  const bool on_device = device_index >= 0;
  const Signature now{input_shape,  weight_shape, dtype_of(call.input), source.value_or(Place{}),
                      target.place, device_index, call.packed,          on_device ? 0 : threads()};
  if (!on_device) follow_threads(now.threads);
  const Tensor input = source ? call.input : dense(call.input, input_shape, CONVT_CHANNELS_FIRST);
  const Tensor weight = dense(call.weight, weight_shape, CONVT_CHANNELS_FIRST);
  void* stream = on_device ? current_stream(device_index) : nullptr;
  const auto plan = plan_of(call, now, weight, stream);

  const std::size_t count = call.operands.size();
  STD_TORCH_CHECK(count == plan->operands.size(), "convt: the chain takes ", plan->operands.size(),
                  " operands, and it was given ", count);
  std::vector<Tensor> operands;
  operands.reserve(count);
  std::vector<const void*> pointers(count);
  for (std::size_t i = 0; i < count; ++i) {
    operands.push_back(prepared(call.operands[i], plan->operands[i], i));
    pointers[i] = operands[i].const_data_ptr();
  }

  Shape output_shape;
  output_shape.rank = plan->output.rank;
  for (std::size_t i = 0; i < output_shape.rank; ++i) {
    output_shape.size[i] = static_cast<std::int64_t>(plan->output.shape[i]);
  }
  Tensor output = target.tensor;
  if (output.defined()) {
    const Shape shape = shape_of(output);
    STD_TORCH_CHECK(shape == output_shape, "convt: out has another shape than the result");
    STD_TORCH_CHECK(dtype_of(output) == now.dtype && device_of(output) == device_index,
                    "convt: out and input differ in dtype or device");
  }
  if (!output.defined() || !target.direct) output = empty(output_shape, target.place.layout, input);

  // On a device the workspace comes from PyTorch's allocator, which knows streams and captured graphs.
  Tensor workspace;
  if (on_device && plan->workspace > 0) workspace = empty_bytes(plan->workspace, input);

  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.const_data_ptr();
  tensors.kernel = weight.const_data_ptr();
  tensors.output = output.mutable_data_ptr();
  tensors.operands = pointers.data();
  tensors.operand_count = count;
  tensors.stream = stream;
  if (workspace.defined()) {
    tensors.workspace = workspace.mutable_data_ptr();
    tensors.workspace_size = plan->workspace;
  }
  const convt_thread_pool pool = lent(now.threads);
  if (now.threads > 1 && may_lend()) tensors.thread_pool = &pool;
  check(library().plan_execute(plan->handle, &tensors));
  return output;
}

Tensor conv_transpose(const Tensor& input, const Tensor& weight, const std::vector<Tensor>& operands,
                      const std::string& text, const std::string& layout, std::int64_t packed) {
  const Call call{input, weight, operands, text, packed};
  const Shape from = shape_of(input), kernel = shape_of(weight);
  return run(call, from, kernel, {{}, {layout_of(layout, call, from, kernel)}});
}

void conv_transpose_out(const Tensor& input, const Tensor& weight, const std::vector<Tensor>& operands,
                        const std::string& text, std::int64_t packed, Tensor out) {
  const Call call{input, weight, operands, text, packed};
  const auto place = place_of(out, shape_of(out));
  const Tensor result = run(call, shape_of(input), shape_of(weight), {out, place.value_or(Place{}), place.has_value()});
  if (!place) torch::stable::copy_(out, result);
}

}  // namespace

}  // namespace convt_torch

STABLE_TORCH_LIBRARY_IMPL(convt, CPU, m) {
  m.impl("conv_transpose", TORCH_BOX(&convt_torch::conv_transpose));
  m.impl("conv_transpose_bare", TORCH_BOX(&convt_torch::conv_transpose));
  m.impl("conv_transpose_out", TORCH_BOX(&convt_torch::conv_transpose_out));
}

STABLE_TORCH_LIBRARY_IMPL(convt, CUDA, m) {
  m.impl("conv_transpose", TORCH_BOX(&convt_torch::conv_transpose));
  m.impl("conv_transpose_bare", TORCH_BOX(&convt_torch::conv_transpose));
  m.impl("conv_transpose_out", TORCH_BOX(&convt_torch::conv_transpose_out));
}
