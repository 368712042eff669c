// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct LeakyRelu : Pointwise {
  double slope = 0.01;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x if x > 0, else slope*x";
  static constexpr std::string_view torch = "F.leaky_relu(x, slope)";
  static constexpr std::string_view examples = "leaky_relu\nleaky_relu(0.2)";
  static constexpr auto fields() { return std::tuple(field_of<LeakyRelu>("slope", &LeakyRelu::slope)); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return select(x > V(0), x, V(slope) * x);
  }
};

}  // namespace convt::core::CONVT_OPS
