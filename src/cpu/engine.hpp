// SPDX-License-Identifier: Apache-2.0
// The CPU engine: every problem on host memory, with the best instruction set there is.
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

const Engine& cpu_engine();

}  // namespace convt::core
