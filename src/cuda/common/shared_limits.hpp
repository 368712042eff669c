// SPDX-License-Identifier: Apache-2.0
// Which kernels are already allowed the dynamic shared memory that their launches ask for.
#pragma once

#include <cstdint>

namespace convt::core::cuda {

// Whether the kernel's limit was set in the context of this number (current_context()).
bool has_shared_limit(void (*kernel)(), std::uint64_t context);
void set_shared_limit(void (*kernel)(), std::uint64_t context);

}  // namespace convt::core::cuda
