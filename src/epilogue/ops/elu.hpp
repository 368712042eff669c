// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Elu : Pointwise {
  double alpha = 1;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x if x > 0, else alpha*(exp(x) - 1)";
  static constexpr std::string_view torch = "F.elu(x, alpha)";
  static constexpr std::string_view examples = "elu\nelu(alpha=0.5)";
  static constexpr auto fields() { return std::tuple(field_of<Elu>("alpha", &Elu::alpha)); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return select(x < V(0), V(alpha) * expm1(x), x);
  }
};

}  // namespace convt::core::CONVT_OPS
