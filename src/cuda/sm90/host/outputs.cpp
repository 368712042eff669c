// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/outputs.hpp"

#include <algorithm>
#include <limits>

namespace convt::core::cuda::sm90 {

bool are_equal(const Strides& a, const Strides& b) {
  return a.n == b.n && a.c == b.c && a.d == b.d && a.h == b.h && a.w == b.w;
}

bool has_near_results(const Strides& to, const Axes& phases) {
  // The next group of positions is one position away along d or h, or 8 along w.
  const std::int64_t steps[] = {to.c, to.d * phases[0], to.h * phases[1], to.w * phases[2] * 8};
  return std::ranges::max(steps) <= std::numeric_limits<std::uint32_t>::max();
}

bool has_near_ends(const Strides& to, const std::array<int, 3>& size) {
  const std::int64_t steps[] = {to.d, to.h, to.w};
  std::int64_t left = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t a = 0; a < 3; ++a) {
    if (size[a] > 1 && steps[a] > left / (size[a] - 1)) return false;
    left -= (size[a] - 1) * steps[a];
  }
  return true;
}

bool are_groups(int size, const View& to, int width) {
  const Strides& s = to.step;
  const std::size_t element = to.dtype == CONVT_F32 ? 4 : 2;
  return width % size == 0 && s.w == 1 && s.n % size == 0 && s.c % size == 0 && s.d % size == 0 && s.h % size == 0 &&
         reinterpret_cast<std::uintptr_t>(to.data) % (static_cast<std::size_t>(size) * element) == 0;
}
bool are_pairs(const View& to, int width) { return are_groups(2, to, width); }
bool is_paired(const View& to, const ConvAxis& axis, int channels) {
  return axis.stride % 2 == 0 && channels % 8 == 0 && are_pairs(to, axis.size);
}

bool has_vectors(const View& to, const ConvAxis& axis, const Geometry& g) {
  const Strides& s = to.step;
  return g.element == 2 && s.w == 1 && axis.size % (8 * axis.stride) == 0 && g.out_channels % g.columns == 0 &&
         s.n % 8 == 0 && s.c % 8 == 0 && s.d % 8 == 0 && s.h % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(to.data) % 16 == 0;
}

}  // namespace convt::core::cuda::sm90
