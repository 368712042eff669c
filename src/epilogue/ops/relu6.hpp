// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Relu6 : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x limited to [0, 6]";
  static constexpr std::string_view torch = "F.relu6(x)";
  static constexpr std::string_view examples = "relu6";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return minimum(maximum(x, V(0)), V(6));
  }
};

}  // namespace convt::core::CONVT_OPS
