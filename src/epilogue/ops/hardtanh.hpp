// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Hardtanh : Pointwise {
  double min = -1;
  double max = 1;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x limited to [min, max]";
  static constexpr std::string_view torch = "F.hardtanh(x, min, max)";
  static constexpr std::string_view examples = "hardtanh\nhardtanh(-0.5, 2)";
  static constexpr auto fields() {
    return std::tuple(field_of<Hardtanh>("min", &Hardtanh::min), field_of<Hardtanh>("max", &Hardtanh::max));
  }

  template <class V>
  CONVT_FN V apply(V x) const {
    return minimum(maximum(x, V(min)), V(max));
  }
};

}  // namespace convt::core::CONVT_OPS
