// SPDX-License-Identifier: Apache-2.0
// What a store policy provides. Traits are the kernel's (kernel/traits.cuh).
//
//   find_offsets<Traits>(p, memory)                 all consumers call it once: finds where a thread's outputs go
//   has_spare_register                              whether its kernels have a register for the main loop's variant
//   Results<Traits>                                 makes the writer to which epilogues pass 8 columns at a time
//   has_m_tile_offsets                              whether find_offsets() keeps a thread's offset of each row tile
//
// A policy whose consumers do not store has neither Results nor has_m_tile_offsets.
// What the host must know is in config/stores.def. docs/hopper.md lists the steps of adding a store.
#pragma once

#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

template <Store which>
struct StoreOf;

}  // namespace convt::core::cuda::sm90
