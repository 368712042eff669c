// SPDX-License-Identifier: Apache-2.0
// The context of the model's runtime.
#pragma once

namespace hopper_model {

// How often kernels' limits of shared memory were set; makes another context current, where no kernel has a limit.
int limits_set();
void change_context();

}  // namespace hopper_model
