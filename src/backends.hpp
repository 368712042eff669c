// SPDX-License-Identifier: Apache-2.0
// The table of engines, in order of priority (the first that accepts a problem runs it), and where a pointer's memory
// is. Right of the engines, left of the doors.
#pragma once

#include "plan/plan.hpp"

namespace convt::core {

const Backends& backends();

}  // namespace convt::core
