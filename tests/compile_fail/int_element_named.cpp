// SPDX-License-Identifier: Apache-2.0
// The named problems take the same element types as plans.
// EXPECT: constraints not satisfied
#include "convt/convt.hpp"

void run() { convt::conv_transpose_3d_asym_input_sq_kernel<int>({.in_channels = 1, .out_channels = 1}); }
