// SPDX-License-Identifier: Apache-2.0
// Random cases in which awkward shapes are common: strides beyond the kernel, kernels beyond the input, single pixels,
// primes, everything cropped but one column, groups of one channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "convt/convt.hpp"

namespace convt::cli {

struct RandomCaseOptions {
  std::optional<DType> dtype = {};  // nothing: any
  std::size_t longest_chain = 4;
};

// A valid problem that takes milliseconds, the same for the same seed and options on every machine.
Problem random_case(std::uint64_t seed, const RandomCaseOptions& options = {});

}  // namespace convt::cli
