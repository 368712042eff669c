// SPDX-License-Identifier: Apache-2.0
// What the parts of a kernel know of it at compile time: the one place where a config's policies become types and
// constants.
#pragma once

#include <type_traits>

#include "cuda/sm90/config/config.hpp"
#include "cuda/sm90/epilogue/norm.cuh"
#include "cuda/sm90/epilogue/strip.cuh"
#include "cuda/sm90/epilogue/warpgroup.cuh"
#include "cuda/sm90/loader/element.cuh"
#include "cuda/sm90/operand.cuh"
#include "cuda/sm90/store/direct.cuh"
#include "cuda/sm90/store/quads.cuh"
#include "cuda/sm90/store/rows.cuh"
#include "cuda/sm90/store/swapped.cuh"

namespace convt::core::cuda::sm90 {

// Program: ProgramEpilogue (epilogue/program.cuh) for kernels that run register programs, or void.
template <class E, Format how, int n, Config which, class Program = void>
struct KernelTraits {
  using Element = E;
  static constexpr bool split = is_split(how);
  static constexpr Format format = multiplied_as(how);
  static constexpr bool guarded = is_guarded(how, sizeof(E));
  using Input = typename InputOf<E, how>::Type;
  // Whether it may run as a fallback kernel (scheduler/fallback.cuh).
  static constexpr bool lists_work = is_fallback(how);
  using Epilogue = Program;
  static constexpr bool programmed = !std::is_void_v<Program>;

  static constexpr Config config = which;
  static constexpr WarpRoles roles = roles_of(which, n);
  static constexpr int loads = std::is_void_v<Program> ? loads_of(roles) : program_loads_of(which, n);
  static constexpr int columns = n, m_tiles = which.m_tiles(n), joint = which.joint();
  static constexpr int offset_bytes = offset_bytes_of(which, n);

  static constexpr bool folds = which.folds();
  static constexpr bool slides = which.slides();
  static constexpr bool k_heavy = which.is_k_heavy();
  static constexpr bool all_producers_fill = which.all_producers_fill();
  static constexpr bool duplicated = which.duplicates();
  static constexpr bool swapped = which.swaps();
  static constexpr int across = swapped ? swapped_positions : n;  // columns of a matrix instruction
  static constexpr bool splits = which.splits(), rotates = which.rotates();
  static constexpr bool in_strip = which.in_strip();
  static constexpr bool hands_over = which.hands_over();
  // Norms over channels take one pass where that suffices; with split operands always two.
  template <int phases_at_once, int row_tiles>
  using Rows = std::conditional_t<split, Centred<phases_at_once, row_tiles>, Shifted<phases_at_once, row_tiles>>;
  using StorePolicy = typename StoreOf<which.store>::Policy;
};

}  // namespace convt::core::cuda::sm90
