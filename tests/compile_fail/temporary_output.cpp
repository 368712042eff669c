// SPDX-License-Identifier: Apache-2.0
// A result written to a temporary is lost.
// EXPECT: (convert|conversion).*std::vector<float>.* to .*span<float
#include <vector>

#include "convt/convt.hpp"

void run(const convt::Plan& plan, const std::vector<float>& input, const std::vector<float>& kernel) {
  plan.execute(convt::Tensors<float>{.input = input, .kernel = kernel, .output = std::vector<float>(4)});
}
