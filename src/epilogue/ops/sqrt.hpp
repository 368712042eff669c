// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Sqrt : Pointwise {
  static constexpr std::string_view about = "square root; NaN below 0";
  static constexpr std::string_view torch = "x.sqrt()";
  static constexpr std::string_view examples = "sqrt";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return sqrt(x);
  }
};

}  // namespace convt::core::CONVT_OPS
