// SPDX-License-Identifier: Apache-2.0
// The engine of sums and averages over all of space after linear steps. Sums of boxes of the input suffice for these.
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

const Engine& cuda_sums_engine();

}  // namespace convt::core
