// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Abs : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "|x|";
  static constexpr std::string_view torch = "x.abs()";
  static constexpr std::string_view examples = "abs";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return maximum(x, V(0) - x);
  }
};

}  // namespace convt::core::CONVT_OPS
