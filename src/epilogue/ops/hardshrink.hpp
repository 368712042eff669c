// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Hardshrink : Pointwise {
  double lambd = 0.5;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x where |x| > lambd, else 0";
  static constexpr std::string_view torch = "F.hardshrink(x, lambd)";
  static constexpr std::string_view examples = "hardshrink\nhardshrink(0.25)";
  static constexpr auto fields() { return std::tuple(field_of<Hardshrink>("lambd", &Hardshrink::lambd)); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return select(maximum(x, V(0) - x) <= V(lambd), V(0), x);
  }
};

}  // namespace convt::core::CONVT_OPS
