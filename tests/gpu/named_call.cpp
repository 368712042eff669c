// SPDX-License-Identifier: Apache-2.0
#include "gpu/named_call.hpp"

#include <numeric>

#include "random.hpp"

namespace convt::testing {
namespace {

constexpr double scalar = 1.5;

std::span<const std::byte> bytes_of(const cli::Tensor& tensor) {
  return std::visit([](const auto& elements) { return std::as_bytes(std::span(elements)); }, tensor);
}

// Elements of input, kernel, bias and output.
std::vector<std::size_t> counts(const NamedFunction& function, const std::vector<std::size_t>& sizes) {
  const auto product = [&](const std::vector<std::string>& names) {
    std::size_t result = 1;
    for (const std::string& name : names)
      if (function.has(name)) result *= sizes[function.index(name)];
    return result;
  };
  const std::size_t groups = function.has("groups") ? sizes[function.index("groups")] : 1;
  std::vector<std::size_t> shape(function.dims + 2);
  EXPECT_EQ(function.output_shape(sizes, shape.data()), CONVT_OK) << convt_last_error();
  return {product({"batch_size", "in_channels", "depth", "height", "width"}),
          product({"in_channels", "out_channels", "kernel_d", "kernel_h", "kernel_w"}) / groups,
          product({"out_channels"}), std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>())};
}

cli::Tensor random_tensor(DType dtype, std::size_t count, std::uint64_t seed) {
  cli::Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(random.below(4096)) / 4096;
  return cli::make_tensor(dtype, values);
}

}  // namespace

NamedCall::NamedCall(const NamedFunction& function, std::vector<std::size_t> sizes, DType dtype, std::uint64_t seed)
    : function_(function), sizes_(std::move(sizes)), dtype_(dtype) {
  for (const std::size_t count : counts(function, sizes_)) {
    host_.push_back(random_tensor(dtype, count, seed++));
    gpu_.emplace_back(0, bytes_of(host_.back()).size());
    gpu_.back().write(bytes_of(host_.back()), nullptr);
  }
}

std::size_t NamedCall::bytes(Tensor tensor) const { return bytes_of(host_[tensor]).size(); }

convt_status NamedCall::launch() const {
  return function_.run[static_cast<std::size_t>(dtype_)](address(input), address(kernel), address(bias),
                                                         address(result), sizes_, scalar);
}

std::vector<double> NamedCall::output(cudaStream_t stream) const {
  cli::Tensor tensor = host_[result];
  std::visit([&](auto& elements) { gpu_[result].read(std::as_writable_bytes(std::span(elements)), stream); }, tensor);
  return cli::to_doubles(tensor);
}

std::vector<double> NamedCall::on_host() const {
  std::vector<cli::Tensor> tensors = host_;
  const auto at = [&](Tensor t) {
    return std::visit([](auto& elements) -> void* { return elements.data(); }, tensors[t]);
  };
  const auto& run = function_.run[static_cast<std::size_t>(dtype_)];
  EXPECT_EQ(run(at(input), at(kernel), at(bias), at(result), sizes_, scalar), CONVT_OK) << convt_last_error();
  return cli::to_doubles(tensors[result]);
}

}  // namespace convt::testing
