// SPDX-License-Identifier: Apache-2.0
// The output is written.
// EXPECT: (convert|conversion).*const std::vector<float>.* to .*span<float
#include <vector>

#include "convt/convt.hpp"

void run(const convt::Plan& plan, const std::vector<float>& input, const std::vector<float>& kernel,
         const std::vector<float>& output) {
  plan.execute(convt::Tensors<float>{.input = input, .kernel = kernel, .output = output});
}
