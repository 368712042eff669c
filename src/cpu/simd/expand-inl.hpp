// SPDX-License-Identifier: Apache-2.0
// A value and one that was kept, of which each may be broadcast along some axes.
#pragma once

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/simd/run-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// Both are laid out in full, a piece of a row at a time; the piece stays in the first-level cache.
template <class T, class Op>
HWY_NOINLINE void expand_rows(const Op& op, const Broadcast<T>& x, const Broadcast<T>& other, const Tile<T>& to) {
  constexpr std::int64_t most = 256;
  T same[most];
  const Axes& size = to.box.size;
  for (std::int64_t c = 0; c < to.channels; ++c)
    for (std::int64_t d = 0; d < size[0]; ++d)
      for (std::int64_t h = 0; h < size[1]; ++h) {
        const T* const from = x.data + c * x.channel_step + d * x.plane_step + h * x.row_step;
        const T* const with = other.data + c * other.channel_step + d * other.plane_step + h * other.row_step;
        T* const row = to.data + c * to.channel_step + (d * size[1] + h) * size[2];
        if (other.one_in_row) std::fill_n(same, std::min(most, size[2]), *with);
        for (std::int64_t w = 0; w < size[2]; w += most) {
          const std::int64_t count = std::min(most, size[2] - w);
          if (x.one_in_row)
            std::fill_n(row + w, count, *from);
          else
            std::copy_n(from + w, count, row + w);
          combine_row(op, row + w, other.one_in_row ? same : with + w, count);
        }
      }
}

template <class T>
void expand(const Step& step, const Broadcast<T>& x, const Broadcast<T>& other, const Tile<T>& to) {
  visit_twin(std::get<Op>(step.what), [&]<class O>(const O& op) {
    if constexpr (std::derived_from<O, Combine>) expand_rows(op, x, other, to);
  });
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
