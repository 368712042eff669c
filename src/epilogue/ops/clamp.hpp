// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Clamp : Pointwise {
  double min = -infinity;
  double max = infinity;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x limited to [min, max]; either may be left out";
  static constexpr std::string_view torch = "torch.clamp(x, min, max)";
  static constexpr std::string_view examples = "clamp(0, 1)\nclamp(min=-0.25)\nclamp(max=0.75)";
  static constexpr auto fields() {
    return std::tuple(field_of<Clamp>("min", &Clamp::min), field_of<Clamp>("max", &Clamp::max));
  }

  template <class V>
  CONVT_FN V apply(V x) const {
    return minimum(maximum(x, V(min)), V(max));
  }
};

}  // namespace convt::core::CONVT_OPS
