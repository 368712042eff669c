// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace convt::core::cuda {

inline constexpr int block_threads = 256;  // of every kernel that is launched by launch.hpp
inline constexpr int warp_threads = 32;

}  // namespace convt::core::cuda
