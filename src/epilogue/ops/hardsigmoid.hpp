// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Hardsigmoid : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "clamp(x + 3, 0, 6) / 6";
  static constexpr std::string_view torch = "F.hardsigmoid(x)";
  static constexpr std::string_view examples = "hardsigmoid";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return minimum(maximum(x + V(3), V(0)), V(6)) * V(1.0 / 6);
  }
};

}  // namespace convt::core::CONVT_OPS
