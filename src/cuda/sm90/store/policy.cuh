// SPDX-License-Identifier: Apache-2.0
// What a store policy provides. Traits are the kernel's (kernel/traits.cuh).
//
//   find_offsets<Traits>(p, memory)                 called once by all consumers: finds where a thread's outputs go
//   has_spare_register                              whether its kernels have one for the main loop's variant
//   Results<Traits>                                 makes the writer that epilogues put 8 columns at a time to
//
// Policies whose consumers do not store themselves have no writers. A new store is a file with such a policy and its
// StoreOf<>, an enumerator of Store, and a line of config/configs.def for each combination that uses it.
#pragma once

#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

template <Store which>
struct StoreOf;

}  // namespace convt::core::cuda::sm90
