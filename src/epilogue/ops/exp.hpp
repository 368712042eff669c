// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Exp : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "e to the power of x";
  static constexpr std::string_view torch = "x.exp()";
  static constexpr std::string_view examples = "exp";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return exp(x);
  }
};

}  // namespace convt::core::CONVT_OPS
