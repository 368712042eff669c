// SPDX-License-Identifier: Apache-2.0
// Elements are float, double, f16 or bf16.
// EXPECT: requires +Element<T>|'int' does not satisfy 'Element'
#include <vector>

#include "convt/convt.hpp"

void run(const convt::Plan& plan, const std::vector<int>& input, const std::vector<int>& kernel,
         std::vector<int>& output) {
  plan.execute(convt::Tensors<int>{.input = input, .kernel = kernel, .output = output});
}
