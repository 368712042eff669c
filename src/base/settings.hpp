// SPDX-License-Identifier: Apache-2.0
// What a process or a thread has set.
#pragma once

#include <cstddef>

#include "convt/convt.h"

namespace convt::core {

void set_num_threads(std::size_t num_threads);  // 0: every CPU the process may run on
std::size_t num_threads();                      // in effect, at least 1

struct ThreadSettings {
  convt_float32_precision precision = CONVT_FLOAT32_IEEE;
  void* stream = nullptr;
};
ThreadSettings& thread_settings();

}  // namespace convt::core
