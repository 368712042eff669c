// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Relu : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "max(x, 0)";
  static constexpr std::string_view torch = "F.relu(x)";
  static constexpr std::string_view examples = "relu";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return maximum(x, V(0));
  }
};

}  // namespace convt::core::CONVT_OPS
