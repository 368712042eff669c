// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

// Convolutions in tf32, f16 and bf16 on the tensor cores of compute capability 9.0, with any chain.
const Engine& cuda_sm90_engine();

}  // namespace convt::core
