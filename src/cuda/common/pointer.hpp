// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "problem/call.hpp"

namespace convt::core::cuda {

// Where a pointer's memory is. Device and managed memory belong to their device; pageable and pinned host memory, and
// anything CUDA does not know, to the host. Never initialises CUDA and never creates a context.
Location locate(const void* pointer);

// A number that tells the calling thread's current context from all others, earlier ones too; 0: there is none, or the
// driver does not say.
std::uint64_t current_context();

}  // namespace convt::core::cuda
