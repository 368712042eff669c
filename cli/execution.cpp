// SPDX-License-Identifier: Apache-2.0
#include "execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace convt::cli {
namespace {

constexpr std::size_t line = 64;             // what a workspace is aligned to, and the length of its guard
constexpr std::byte workspace_poison{0xff};  // NaN in every dtype

// The bits of a quiet NaN with a payload.
template <Element T>
constexpr auto poison_bits() {
  if constexpr (std::same_as<T, double>)
    return std::uint64_t{0x7ffda5a5a5a5a5a5};
  else if constexpr (std::same_as<T, float>)
    return std::uint32_t{0x7fe5a5a5};
  else if constexpr (std::same_as<T, f16>)
    return std::uint16_t{0x7ea5};
  else
    return std::uint16_t{0x7fe5};
}

template <Element T>
T poison() {
  return std::bit_cast<T>(poison_bits<T>());
}

template <Element T>
bool is_poison(T value) {
  return std::bit_cast<decltype(poison_bits<T>())>(value) == poison_bits<T>();
}

template <Element T>
std::string find_defect(std::span<const T> memory, std::size_t guard) {
  const auto intact = [](T value) { return is_poison(value); };
  const auto before = memory.first(guard), after = memory.last(guard);
  const auto output = memory.subspan(guard, memory.size() - 2 * guard);
  if (const auto bad = std::find_if_not(before.begin(), before.end(), intact); bad != before.end())
    return fmt::format("wrote {} elements before the output", before.end() - bad);
  if (const auto bad = std::find_if_not(after.begin(), after.end(), intact); bad != after.end())
    return fmt::format("wrote {} elements after the output", bad - after.begin() + 1);
  const auto unwritten = std::count_if(output.begin(), output.end(), intact);
  if (unwritten == 0) return "";
  return fmt::format("left {} of {} output elements unwritten, the first at {}", unwritten, output.size(),
                     std::find_if(output.begin(), output.end(), intact) - output.begin());
}

}  // namespace

Execution::Execution(Plan& plan, const Inputs& inputs, const ExecutionOptions& options)
    : plan_(plan), inputs_(inputs), options_(options) {
  const TensorInfo& info = plan.output_info();
  memory_ = make_tensor(info.dtype, info.elements() + 2 * options.guard);
  std::visit([]<class T>(std::vector<T>& memory) { std::fill(memory.begin(), memory.end(), poison<T>()); }, memory_);
  if (options.own_workspace) {
    workspace_memory_.assign(plan.workspace_size() + 2 * line, workspace_poison);
    void* begin = workspace_memory_.data();
    std::size_t space = workspace_memory_.size();
    std::align(line, plan.workspace_size(), begin, space);
    workspace_ = {static_cast<std::byte*>(begin), plan.workspace_size()};
  }
  if (options.pack_kernel) std::visit([&](const auto& kernel) { plan.pack_kernel(kernel); }, inputs.kernel);
}

void Execution::execute() {
  std::visit(
      [&]<class T>(std::vector<T>& memory) {
        Tensors<T> tensors;
        tensors.input = std::get<std::vector<T>>(inputs_.input);
        if (!options_.pack_kernel) tensors.kernel = std::get<std::vector<T>>(inputs_.kernel);
        tensors.output = std::span(memory).subspan(options_.guard, plan_.output_info().elements());
        for (const Tensor& operand : inputs_.operands)
          std::visit([&](const auto& elements) { tensors.operands.emplace_back(elements); }, operand);
        tensors.workspace = workspace_;
        plan_.execute(tensors);
      },
      memory_);
}

std::string Execution::defect() const {
  const auto intact = [](std::byte byte) { return byte == workspace_poison; };
  const std::byte *begin = workspace_memory_.data(), *end = begin + workspace_memory_.size();
  const std::byte *first = workspace_.data(), *last = first + workspace_.size();
  if (!std::all_of(begin, first, intact)) return "wrote before the workspace";
  if (!std::all_of(last, end, intact)) return "wrote after the workspace";
  return std::visit([&]<class T>(const std::vector<T>& memory) { return find_defect<T>(memory, options_.guard); },
                    memory_);
}

std::vector<double> Execution::output(std::size_t count) const {
  return std::visit(
      [&](const auto& memory) {
        std::vector<double> values;
        const auto all = std::span(memory).subspan(options_.guard, plan_.output_info().elements());
        for (const auto value : all.first(std::min(count, all.size()))) values.push_back(to_double(value));
        return values;
      },
      memory_);
}

std::vector<double> execute(Plan& plan, const Inputs& inputs) {
  Execution execution(plan, inputs);
  execution.execute();
  if (const std::string defect = execution.defect(); !defect.empty())
    throw Error(Status::internal_error, fmt::format("{} {}: {}", plan.engine(), defect, plan.text()));
  return execution.output();
}

}  // namespace convt::cli
