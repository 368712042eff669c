// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cuda/schedule/schedule.hpp"
#include "plan/engine.hpp"

namespace convt::core::cuda::schedule {

std::unique_ptr<Executable> make_executable(std::shared_ptr<const Schedule> schedule, int device);

}  // namespace convt::core::cuda::schedule
