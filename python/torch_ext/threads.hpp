// SPDX-License-Identifier: Apache-2.0
// PyTorch's own threads, lent to libconvt. They go on spinning for a while after each of their loops, and threads of
// libconvt's own would share the cores with them.
#pragma once

#include <cstdint>

#include "convt/convt.h"

namespace convt_torch {

// How many there are, by torch.set_num_threads() in this thread.
std::uint32_t threads();

// Whether libconvt may have them. Not in a child of fork(), which lacks OpenMP's threads and would wait for them.
bool may_lend();
convt_thread_pool lent(std::uint32_t threads);

}  // namespace convt_torch
