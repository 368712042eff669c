// SPDX-License-Identifier: Apache-2.0
// Launches of the convolution's kernels, by operand format; for host code.
#pragma once

#include <string_view>

#include "cuda/common/launch.hpp"
#include "cuda/sm90/config/config.hpp"

namespace convt::core::cuda::sm90 {

// The launches of a format's kernels.
using LaunchKernel = void(const Config& config, int columns, const ConvParams& params, const Launch& how);
struct Launchers {
  Format format;
  int element;  // bytes
  std::string_view about;
  LaunchKernel* conv;
  LaunchKernel* program;  // of kernels that run register programs
};

#define CONVT_FORMAT(name, ...) LaunchKernel launch_conv_##name, launch_program_##name;
#include "cuda/sm90/config/formats.def"
#undef CONVT_FORMAT

inline constexpr Launchers all_launchers[] = {
#define CONVT_FORMAT(name, E, format, about) \
  {Format::format, static_cast<int>(sizeof(E)), about, launch_conv_##name, launch_program_##name},
#include "cuda/sm90/config/formats.def"
#undef CONVT_FORMAT
};
// Those of a format, for tensors with elements of so many bytes.
constexpr const Launchers& launchers_of(Format format, int element) {
  for (const Launchers& row : all_launchers)
    if (row.format == format && row.element == element) return row;
  return all_launchers[0];
}

}  // namespace convt::core::cuda::sm90
