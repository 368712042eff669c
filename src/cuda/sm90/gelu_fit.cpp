// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/gelu_fit.hpp"

#include <cmath>

namespace convt::core::cuda::sm90 {
namespace {

// The number that a line behind GELU multiplies all channels by, if GELU can do it: its fit stays among normal floats.
float factor_behind_gelu(const ShortChain::Line& line) {
  const bool fits = line.there && line.a == nullptr && line.a_times >= 0x1p-16f && line.a_times <= 0x1p16f;
  return fits ? line.a_times : 1;
}

template <class E>
GeluFit fit_of(const ShortChain& chain) {
  return chain.activation == ShortChain::gelu_of_norm ? gelu_of_norm_fit<E>() : gelu_fit<E>();
}

}  // namespace

void prepare_gelu(ShortChain& chain, convt_dtype dtype, bool of_norms, bool ends) {
  if (chain.activation != ShortChain::gelu) return;
  ShortChain::Line &behind = chain.lines[ShortChain::behind_norm], &last = chain.lines[ShortChain::last];
  const float factor = factor_behind_gelu(last), given = 0.5f * factor;
  if (factor == last.a_times && last.a == nullptr) last = {};
  const bool of_norm = chain.norm != 0 && !behind.there;
  if (of_norm) {
    chain.gain = given;
  } else {
    ShortChain::Line& line = behind.there ? behind : chain.lines[ShortChain::before_norm];
    line.there = true;
    line.a_times *= given;
    line.b_times *= given;
  }
  if ((of_norm || (of_norms && !behind.there)) && ends && !last.there) chain.activation = ShortChain::gelu_of_norm;
  const GeluFit fit = dtype == CONVT_F32   ? fit_of<float>(chain)
                      : dtype == CONVT_F16 ? fit_of<convt_f16>(chain)
                                           : fit_of<convt_bf16>(chain);
  for (int k = 0; k <= fit.degree; ++k)
    chain.q[k] = static_cast<float>(fit.q[k] / std::pow(static_cast<double>(factor), fit.degree - k));
}

}  // namespace convt::core::cuda::sm90
