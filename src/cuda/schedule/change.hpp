// SPDX-License-Identifier: Apache-2.0
// The kernel that a rewritten program convolves with. The device computes it before an engine packs it.
#pragma once

#include "convt/convt.h"
#include "cuda/common/launch.hpp"

namespace convt::core::cuda::schedule {

// Computes the program's kernel from the asked one, as change_kernel() in plan/program.cpp does on the host.
struct ChangeParams {
  struct Axis {
    std::int64_t asked = 1, dilation = 1, padding = 0;  // of the asked convolution
    std::int64_t window = 1, window_stride = 1;
    std::int64_t taps = 1, new_dilation = 1, new_padding = 0;  // of the program's
  };
  const void* kernel = nullptr;
  convt_dtype dtype = CONVT_F32;
  void* changed = nullptr;
  Axis axis[3];
  std::int64_t pairs = 1;   // of channels, in the changed kernel
  std::int64_t summed = 1;  // asked pairs that are summed into one of these
  double factor = 1;
};

template <class T>
void launch_change(const ChangeParams& params, cudaStream_t stream);

}  // namespace convt::core::cuda::schedule
