// SPDX-License-Identifier: Apache-2.0
// The activations of register epilogues.
#pragma once

#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/epilogue/gelu.cuh"

namespace convt::core::cuda::sm90 {

// Calls gelu() or relu() if that is the chain's activation. Neither is called for gelu_of_norm.
template <class Gelu, class Relu>
__device__ __forceinline__ void with_activation(const RegisterEpilogue& chain, const Gelu& gelu, const Relu& relu) {
  if (chain.activation == RegisterEpilogue::gelu)
    gelu();
  else if (chain.activation == RegisterEpilogue::relu)
    relu();
}
__device__ __forceinline__ bool is_gelu_of_norm(const RegisterEpilogue& chain) {
  return chain.activation == RegisterEpilogue::gelu_of_norm;
}

}  // namespace convt::core::cuda::sm90
