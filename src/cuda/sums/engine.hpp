// SPDX-License-Identifier: Apache-2.0
// Sums and averages over all of space behind linear steps: all they need are sums of boxes of the input.
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

const Engine& cuda_sums_engine();

}  // namespace convt::core
