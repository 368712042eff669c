// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/prepare_gelu.hpp"

#include <cmath>

#include "cuda/chain/gelu_fit.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// The factor of a scale after GELU, if the polynomial can include it with coefficients that are normal floats; else 1.
float factor_after_gelu(const RegisterEpilogue::ScaleBias& line) {
  const bool fits = line.present && line.a == nullptr && line.a_times >= 0x1p-16f && line.a_times <= 0x1p16f;
  return fits ? line.a_times : 1;
}

template <class E>
GeluFit fit_of(const RegisterEpilogue& chain) {
  return chain.activation == RegisterEpilogue::gelu_of_norm ? gelu_of_norm_fit<E>() : gelu_fit<E>();
}

}  // namespace

void prepare_gelu(RegisterEpilogue& chain, convt_dtype dtype, bool of_norms, bool ends, bool precise) {
  if (chain.activation != RegisterEpilogue::gelu) return;
  RegisterEpilogue::ScaleBias &after = chain.scale_bias[RegisterEpilogue::after_norm],
                              &last = chain.scale_bias[RegisterEpilogue::last];
  const float factor = precise ? 1 : factor_after_gelu(last), given = 0.5f * factor;
  if (factor == last.a_times && last.a == nullptr) last = {};
  const bool of_norm = chain.norm != 0 && !after.present;
  if (of_norm) {
    chain.gain = given;
  } else {
    RegisterEpilogue::ScaleBias& line = after.present ? after : chain.scale_bias[RegisterEpilogue::before_norm];
    line.present = true;
    line.a_times *= given;
    line.b_times *= given;
  }
  if ((of_norm || (of_norms && !after.present)) && ends && !last.present && !precise)
    chain.activation = RegisterEpilogue::gelu_of_norm;
  const GeluFit fit = dtype == CONVT_F32   ? fit_of<float>(chain)
                      : dtype == CONVT_F16 ? fit_of<convt_f16>(chain)
                                           : fit_of<convt_bf16>(chain);
  for (int k = 0; k <= fit.degree; ++k)
    chain.q[k] = static_cast<float>(fit.q[k] / std::pow(static_cast<double>(factor), fit.degree - k));
}

}  // namespace convt::core::cuda::sm90
