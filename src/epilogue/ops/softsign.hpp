// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Softsign : Pointwise {
  static constexpr std::string_view about = "x / (1 + |x|)";
  static constexpr std::string_view torch = "F.softsign(x)";
  static constexpr std::string_view examples = "softsign";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return x / (V(1) + maximum(x, V(0) - x));
  }
};

}  // namespace convt::core::CONVT_OPS
