// SPDX-License-Identifier: Apache-2.0
// Operands have an element type too.
// EXPECT: 'const std::vector<int>' to .*'convt::Operand'
#include <vector>

#include "convt/convt.hpp"

convt::Operand make(const std::vector<int>& bias) { return bias; }
