// SPDX-License-Identifier: Apache-2.0
// The five problems' C functions behind one shape of call, for tests that sweep over all of them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "convt/convt.h"

namespace convt::testing {

struct NamedFunction {
  std::string slug;
  std::size_t dims;
  bool has_bias;
  std::vector<std::string> parameters;  // sizes, in order; a scalar is not among them
  // Indexed by convt_dtype.
  std::function<convt_status(const void* input, const void* kernel, const void* bias, void* output,
                             const std::vector<std::size_t>& sizes, double scalar)>
      run[4];
  std::function<convt_status(const std::vector<std::size_t>& sizes, std::size_t* shape)> output_shape;

  // Position of a parameter; its absence is a failure of the test.
  std::size_t index(const std::string& parameter) const;
  bool has(const std::string& parameter) const;
  // A small legal problem: batch 2, 2 -> 4 channels, 5 per axis, kernel 3, stride 2, the rest 0 or 1.
  std::vector<std::size_t> example() const;
};

const std::vector<NamedFunction>& named_functions();

}  // namespace convt::testing
