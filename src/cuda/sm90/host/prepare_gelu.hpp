// SPDX-License-Identifier: Apache-2.0
// GELU in a register epilogue: the factors before and after it become part of its polynomial.
#pragma once

#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

// Halves GELU's argument and includes the factor after GELU, by the last multiplication before it or by one more.
// of_norms: the chain begins with means of norms. ends: only rounding to the tensors' dtype follows.
void prepare_gelu(RegisterEpilogue& chain, convt_dtype dtype, bool of_norms, bool ends, bool precise);

}  // namespace convt::core::cuda::sm90
