// SPDX-License-Identifier: Apache-2.0
// The plain executor: obvious loops over doubles, every case. The oracle of tests and the last fallback.
#pragma once

#include "plan/engine.hpp"

namespace convt::core {

const Engine& reference_engine();

}  // namespace convt::core
