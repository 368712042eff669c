// SPDX-License-Identifier: Apache-2.0
#include "execution.hpp"

#include <algorithm>
#include <cstring>

#include "gpu.hpp"
#include "print.hpp"
#include "runs.hpp"

namespace convt::cli {
namespace {

constexpr std::size_t workspace_alignment = 64;
constexpr std::byte workspace_contents{0xff};  // NaN in every dtype

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return std::visit([](const auto& elements) { return std::as_bytes(std::span(elements)); }, tensor);
}

std::size_t size_of(DType dtype) {
  return std::visit([](const auto& elements) { return sizeof elements[0]; }, make_tensor(dtype, 0));
}

std::vector<WatchedMemory::Block> blocks_of(const Plan& plan, const ExecutionOptions& options) {
  std::vector<WatchedMemory::Block> blocks;
  const auto add = [&](const std::string& name, const TensorInfo& info) {
    const std::size_t alignment = options.aligned ? WatchedMemory::Block{}.alignment : size_of(info.dtype);
    blocks.push_back({name, info.bytes, alignment});
  };
  add("the input", plan.input_info());
  add("the kernel", plan.kernel_info());
  for (const TensorInfo& info : plan.operand_infos()) add(info.name, info);
  add("the output", plan.output_info());
  if (options.own_workspace) blocks.push_back({"the workspace", plan.workspace_size(), workspace_alignment});
  return blocks;
}

template <class T>
std::span<T> as(std::byte* address, const TensorInfo& info) {
  return {reinterpret_cast<T*>(address), info.extent()};
}

Operand operand_at(std::byte* address, const TensorInfo& info) {
  switch (info.dtype) {
    case DType::f64:
      return as<const double>(address, info);
    case DType::f16:
      return as<const f16>(address, info);
    case DType::bf16:
      return as<const bf16>(address, info);
    case DType::f32:
      break;
  }
  return as<const float>(address, info);
}

std::string find_unwritten(std::span<const std::byte> output, std::uint64_t poison, std::size_t element) {
  std::size_t unwritten = 0, first = 0;
  for (std::size_t i = 0; i < output.size(); i += element)
    if (std::memcmp(&output[i], &poison, element) == 0 && unwritten++ == 0) first = i / element;
  if (unwritten == 0) return "";
  return formatted("left {} of {} output elements unwritten, the first at {}", unwritten, output.size() / element,
                   first);
}

}  // namespace

Execution::Execution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options)
    : plan_(plan),
      inputs_(&inputs),
      options_(options),
      memory_(blocks_of(plan, options), poison_of(plan.output_info().dtype), options.place) {
  load(inputs);
  if (!options.pack_kernel) return;
  plan.pack_kernel(operand_at(memory_.address(1), plan.kernel_info()), options.place.stream);
  packed_ = true;
  load(inputs);
}

void Execution::load(const Inputs& inputs) {
  inputs_ = &inputs;
  memory_.poison();
  for (std::size_t block = 0; block < output_block(); ++block) {
    const auto from = loaded(block);
    const std::size_t size = size_of(info(block).dtype);
    if (from.empty()) continue;
    each_run(info(block), [&](std::size_t first, std::size_t place, std::size_t count) {
      std::memcpy(&memory_.contents(block)[place * size], &from[first * size], count * size);
    });
  }
  if (options_.own_workspace) std::ranges::fill(memory_.contents(workspace_block()), workspace_contents);
  memory_.update_device();
}

void Execution::execute() {
  launch();
  if (options_.place.device == Device::cuda) wait_for_gpu(options_.place.stream);
}

void Execution::launch() {
  std::visit(
      [&]<class T>(const std::vector<T>&) {
        Tensors<T> tensors;
        tensors.input = as<const T>(memory_.address(0), plan_.input_info());
        if (!packed_) tensors.kernel = as<const T>(memory_.address(1), plan_.kernel_info());
        tensors.output = as<T>(memory_.address(output_block()), plan_.output_info());
        for (const TensorInfo& info : plan_.operand_infos())
          tensors.operands.push_back(operand_at(memory_.address(2 + tensors.operands.size()), info));
        if (options_.own_workspace) tensors.workspace = {memory_.address(workspace_block()), plan_.workspace_size()};
        tensors.stream = options_.place.stream;
        plan_.execute(tensors);
      },
      inputs_->input);
}

std::string Execution::defect() {
  memory_.update_host();
  if (std::string defect = memory_.defect(); !defect.empty()) return defect;
  for (std::size_t block = 0; block < output_block(); ++block)
    if (const auto before = loaded(block);
        !before.empty() && std::memcmp(before.data(), elements(block).data(), before.size()) != 0)
      return formatted("wrote to {}", block == 0 ? "the input" : block == 1 ? "the kernel" : "an operand");
  for (const std::size_t block : {std::size_t{0}, output_block()}) {
    const std::size_t size = size_of(info(block).dtype);
    std::size_t end = 0;
    bool intact = true;
    each_run(info(block), [&](std::size_t, std::size_t place, std::size_t count) {
      intact &= memory_.untouched(block, end * size, place * size);
      end = place + count;
    });
    if (!intact)
      return formatted("wrote to other channels of the tensor that {} is in", block == 0 ? "the input" : "the output");
  }
  const DType dtype = plan_.output_info().dtype;
  return find_unwritten(elements(output_block()), poison_of(dtype), size_of(dtype));
}

const TensorInfo& Execution::info(std::size_t block) const {
  if (block == output_block()) return plan_.output_info();
  return block == 0 ? plan_.input_info() : block == 1 ? plan_.kernel_info() : plan_.operand_infos()[block - 2];
}

std::vector<std::byte> Execution::elements(std::size_t block) {
  const std::size_t size = size_of(info(block).dtype);
  std::vector<std::byte> dense(info(block).elements() * size);
  each_run(info(block), [&](std::size_t first, std::size_t place, std::size_t count) {
    std::memcpy(&dense[first * size], &memory_.contents(block)[place * size], count * size);
  });
  return dense;
}

std::vector<double> Execution::output(std::size_t count) {
  memory_.update_host();
  const std::vector<std::byte> bytes = elements(output_block());
  Tensor tensor = make_tensor(plan_.output_info().dtype, std::min(count, plan_.output_info().elements()));
  std::visit(
      [&](auto& elements) {
        const auto target = std::as_writable_bytes(std::span(elements));
        std::copy_n(bytes.begin(), target.size(), target.begin());
      },
      tensor);
  return to_doubles(tensor);
}

std::vector<double> Execution::output(std::span<const std::size_t> elements) {
  const auto bytes = memory_.contents(output_block());
  Tensor tensor = make_tensor(plan_.output_info().dtype, elements.size());
  std::visit(
      [&](auto& values) {
        const std::size_t size = sizeof values[0];
        for (std::size_t i = 0; i < elements.size(); ++i)
          std::memcpy(&values[i], &bytes[place_of(plan_.output_info(), elements[i]) * size], size);
      },
      tensor);
  return to_doubles(tensor);
}

std::span<const std::byte> Execution::loaded(std::size_t block) const {
  if (block == 0) return bytes_of(inputs_->input);
  if (block == 1) return packed_ ? std::span<const std::byte>() : bytes_of(inputs_->kernel);
  return bytes_of(inputs_->operands[block - 2]);
}

std::vector<double> execute(Plan& plan, const Inputs& inputs) {
  Execution execution(plan, inputs);
  execution.execute();
  if (const std::string defect = execution.defect(); !defect.empty())
    throw Error(Status::internal_error, formatted("{} {}: {}", plan.engine(), defect, plan.text()));
  return execution.output();
}

}  // namespace convt::cli
