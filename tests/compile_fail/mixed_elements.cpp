// SPDX-License-Identifier: Apache-2.0
// Input, kernel and output have one element type.
// EXPECT: (convert|conversion).*std::vector<double>.* to .*span<const float
#include <vector>

#include "convt/convt.hpp"

void run(const convt::Plan& plan, const std::vector<float>& input, const std::vector<double>& kernel,
         std::vector<float>& output) {
  plan.execute(convt::Tensors<float>{.input = input, .kernel = kernel, .output = output});
}
