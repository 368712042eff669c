// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cpu/schedule.hpp"
#include "plan/engine.hpp"

namespace convt::core::cpu {

template <class T>
std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule<T>> schedule);

}  // namespace convt::core::cpu
