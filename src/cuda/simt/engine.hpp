// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

// Any case on any CUDA device of compute capability 8.0 or later, by plain multiply-adds.
const Engine& cuda_generic_engine();

}  // namespace convt::core
