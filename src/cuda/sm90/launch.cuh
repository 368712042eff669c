// SPDX-License-Identifier: Apache-2.0
// Which kernel a way and a number of columns are, and its launch.
#pragma once

#include <cassert>

#include "cuda/sm90/march.cuh"

namespace convt::core::cuda::sm90 {

template <class E, Format how, int n, Way which>
struct KernelKind {
  using Element = E;
  static constexpr Format format = how;
  static constexpr bool halved = sizeof(E) == sizeof(float) && how == Format::f16;  // in place of tf32
  using Input = std::conditional_t<halved, Halved, E>;
  static constexpr Way way = which;
  static constexpr Team team = team_of(which, n);
  static constexpr bool wide = which == Way::wide, pools = which == Way::pooled, folds = which == Way::folded;
  static constexpr bool twins = which == Way::twin, rows = which == Way::rows;
  static constexpr int columns = n, blocks = blocks_of(which, n), joint = joint_of(which);
  static constexpr bool cuts = cuts_items(which);
  static constexpr int place_bytes = place_bytes_of(which, n);
  static constexpr int across = wide ? wide_positions : n;  // of a matrix instruction
};

template <class Kind>
constexpr auto* kernel_of() {
  if constexpr (Kind::way == Way::march)
    return march_kernel<Kind>;
  else
    return conv_kernel<Kind>;
}

template <class Kind>
void launch_kind(const ConvParams& params, const Launch& how) {
  constexpr auto* kernel = kernel_of<Kind>();
  // The same for every launch: other threads launch this kernel too, and each context has its own.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared),
        "the shared memory of Hopper's convolution");
  launch(kernel, "Hopper's convolution", how, params, Kind::team.threads());
}

template <class E, Format format, int n>
void launch_columns(Way way, const ConvParams& params, const Launch& how) {
  using Input = typename KernelKind<E, format, n, Way::single>::Input;
  switch (way) {
    case Way::strip:
      if constexpr (operand_bytes<Input> == sizeof(E))
        return launch_kind<KernelKind<E, format, n, Way::strip>>(params, how);
      break;
    case Way::single:
      return launch_kind<KernelKind<E, format, n, Way::single>>(params, how);
    case Way::paired:
      if constexpr (can_pair(n)) return launch_kind<KernelKind<E, format, n, Way::paired>>(params, how);
      break;
    case Way::twin:
      if constexpr (can_twin(n, operand_bytes<Input>))
        return launch_kind<KernelKind<E, format, n, Way::twin>>(params, how);
      break;
    case Way::rows:
      if constexpr (can_row(n)) return launch_kind<KernelKind<E, format, n, Way::rows>>(params, how);
      break;
    case Way::deep:
      if constexpr (can_deepen(n)) return launch_kind<KernelKind<E, format, n, Way::deep>>(params, how);
      break;
    case Way::folded:
      if constexpr (can_fold(n)) return launch_kind<KernelKind<E, format, n, Way::folded>>(params, how);
      break;
    case Way::pooled:
      if constexpr (can_pool(n)) return launch_kind<KernelKind<E, format, n, Way::pooled>>(params, how);
      break;
    case Way::march:
      if constexpr (can_march(n)) return launch_kind<KernelKind<E, format, n, Way::march>>(params, how);
      break;
    case Way::wide:
      if constexpr (n == wide_channels) return launch_kind<KernelKind<E, format, n, Way::wide>>(params, how);
      break;
  }
  assert(false);  // no tile has this way and so many columns
}

template <class E, Format format>
void launch_format(Way way, int columns, const ConvParams& params, const Launch& how) {
  switch (columns) {
    case 8:
      if constexpr (can_halve(8) || !KernelKind<E, format, 8, Way::single>::halved)
        return launch_columns<E, format, 8>(way, params, how);
      break;
    case 24:
      return launch_columns<E, format, 24>(way, params, how);
    case 32:
      return launch_columns<E, format, 32>(way, params, how);
    case 64:
      return launch_columns<E, format, 64>(way, params, how);
    default:
      return launch_columns<E, format, most_columns>(way, params, how);
  }
}

}  // namespace convt::core::cuda::sm90
