// SPDX-License-Identifier: Apache-2.0
// Tensors whose element type is known at run time, and the data they are filled with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

// Elements in memory order. The alternatives stand in the order of DType.
using Tensor = std::variant<std::vector<float>, std::vector<double>, std::vector<f16>, std::vector<bf16>>;

// `count` zeros.
Tensor make_tensor(DType dtype, std::size_t count);

// Rounds to the nearest element.
Tensor make_tensor(DType dtype, std::span<const double> values);

// The first `count` elements, or all of them.
std::vector<double> to_doubles(const Tensor& tensor, std::size_t count = std::numeric_limits<std::size_t>::max());

// From the memory order of info.layout to N, C, [D, [H,]] W.
std::vector<double> to_channels_first(std::vector<double> values, const TensorInfo& info);

// How data is drawn. The element i (in memory order) of tensor t (0: input, 1: kernel, 2 + j: the chain's operand j) is
//   z = seed*0x9E3779B97F4A7C15 + (t+1)*0xBF58476D1CE4E5B9 + i*0x94D049BB133111EB, mixed as in SplitMix64;
//   u = (z >> 11) * 2^-53, in [0, 1);
// rounded to the tensor's dtype. Operands named *.var are 0.5 + u, and *div.other are 0.5 + u with the sign of 2u - 1,
// whatever the fill.
enum class Fill {
  unit,           // u
  signed_unit,    // 2u - 1
  special_values  // 2u - 1, but in the input and in operands of its rank z & 63 == 0 is NaN, 1 is +Inf, 2 is -Inf
};

// Everything one execution reads.
struct Inputs {
  Tensor input, kernel;
  std::vector<Tensor> operands;
};
Inputs make_inputs(const Plan& plan, std::uint64_t seed, Fill fill);

// The same values for `to`: a plan of the same problem with other dtypes, channels-first, and perhaps fewer images.
Inputs convert_inputs(const Inputs& inputs, const Plan& from, const Plan& to);

}  // namespace convt::cli
