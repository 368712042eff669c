// SPDX-License-Identifier: Apache-2.0
// The kernel of a config and a number of columns, and its launch.
#pragma once

#include <cassert>

#include "cuda/sm90/kernel/launchers.hpp"
#include "cuda/sm90/kernel/sliding.cuh"
#include "cuda/sm90/kernel/traits.cuh"

namespace convt::core::cuda::sm90 {

template <class Traits>
constexpr auto* kernel_of() {
  if constexpr (Traits::slides)
    return sliding_kernel<Traits>;
  else
    return conv_kernel<Traits>;
}

template <class Traits>
void launch_kernel(const ConvParams& params, const Launch& how) {
  constexpr auto* kernel = kernel_of<Traits>();
  Launch own = how;
  own.shared_limit = most_shared;
  launch(kernel, "Hopper's convolution", own, params, Traits::roles.threads());
}

template <class E, Format format, int n, class Program>
void launch_columns(const Config& config, const ConvParams& params, const Launch& how) {
  const auto try_launch = [&]<Config own>() {
    if constexpr (has_kernel(own, n, format, sizeof(E), !std::is_void_v<Program>)) {
      if (config != own) return false;
      launch_kernel<KernelTraits<E, format, n, own, Program>>(params, how);
      return true;
    }
    return false;
  };
  [[maybe_unused]] bool launched = false;
#define CONVT_CONFIG(name, ...) launched = launched || try_launch.template operator()<configs::name>();
#include "cuda/sm90/config/configs.def"
#undef CONVT_CONFIG
  assert(launched);  // tiles have only configs and columns that a kernel has
}

template <class E, Format format, class Program>
void launch_format(const Config& config, int columns, const ConvParams& params, const Launch& how) {
  switch (columns) {
    case 8:
      return launch_columns<E, format, 8, Program>(config, params, how);
    case 24:
      return launch_columns<E, format, 24, Program>(config, params, how);
    case 32:
      return launch_columns<E, format, 32, Program>(config, params, how);
    case 64:
      return launch_columns<E, format, 64, Program>(config, params, how);
    default:
      return launch_columns<E, format, most_columns, Program>(config, params, how);
  }
}

}  // namespace convt::core::cuda::sm90
