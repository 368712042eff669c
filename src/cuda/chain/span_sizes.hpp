// SPDX-License-Identifier: Apache-2.0
// The sizes into which spans are cut, for host and device.
#pragma once

namespace convt::core::cuda {

inline constexpr int span_bytes = 16;     // of a slot: what one instruction loads
inline constexpr int thread_slots = 12;   // in flight at once: 192 bytes
inline constexpr int norm_threads = 320;  // of a block that normalises: two blocks fill the registers
inline constexpr int norm_blocks = 2;     // blocks of a multiprocessor that normalise
inline constexpr int chunk_slots = norm_threads * thread_slots;  // 60 KiB: what a block measures at once
inline constexpr int most_small_window = 128;                    // elements of the largest window that a thread folds
inline constexpr int most_span_pixels = 1 << 29;                 // with another chunk, they still fit an int

}  // namespace convt::core::cuda
