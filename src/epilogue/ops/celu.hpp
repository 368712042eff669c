// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Celu : Pointwise {
  double alpha = 1;

  static constexpr std::string_view about = "x if x > 0, else alpha*(exp(x/alpha) - 1)";
  static constexpr std::string_view torch = "F.celu(x, alpha)";
  static constexpr std::string_view examples = "celu\ncelu(alpha=0.5)";
  static constexpr auto fields() { return std::tuple(field_of<Celu>("alpha", &Celu::alpha)); }
  constexpr std::string_view complaint() const { return alpha == 0 ? "takes an alpha that is not 0" : ""; }

  template <class V>
  CONVT_FN V apply(V x) const {
    return select(x > V(0), x, V(alpha) * expm1(x / V(alpha)));
  }
};

}  // namespace convt::core::CONVT_OPS
